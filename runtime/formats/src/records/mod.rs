//! Record files (TFRecord): frames of bytes with checksums.
