//! Examples: named features in a record, decoded into columns of a batch.
