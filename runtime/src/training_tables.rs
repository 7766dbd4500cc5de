//! The tables that a training makes of its data, or has from a checkpoint.

use std::path::Path;

use trainspec_compiler::typed::{DataSet, Eval, Spec};

use crate::data::DataContext;
use crate::data::tables::{
    TABLES_RECORD, Tables, ensure_tables_fit, output_tables, tables_of_data,
};
use crate::saver::records_in;
use crate::session::{the_model, the_train};
use crate::trainer::the_data;
use crate::{Error, StopToken};

/// Whether the data of an evaluation needs tables that are made of the training data.
pub(crate) fn takes_tables(spec: &Spec, eval: &Eval) -> bool {
    let set = spec.data.iter().find(|set| set.name == eval.data);
    set.is_some_and(|set| set.data_tables().next().is_some())
}

/// Sets the tables that are made of the training data: those of a checkpoint, and without one those of the records.
pub(crate) fn the_tables(
    cx: &DataContext,
    checkpoint: Option<&Path>,
    stop: &StopToken,
) -> Result<(), Error> {
    let (train, model) = (the_train(&cx.spec)?, the_model(&cx.spec)?);
    let Some(name) = &train.data else {
        return Ok(());
    };
    let set = the_data(&cx.spec, name)?;
    let mut tables = match checkpoint {
        Some(path) => {
            let records = records_in(&cx.storage, path)?;
            let tables = records.get(TABLES_RECORD).map_or("", |text| text);
            Tables::parse(tables)?
        }
        None => tables_of_data(cx, set, stop)?,
    };
    ensure_tables_fit(&tables, set)?;
    output_tables(cx, set, model, &mut tables)?;
    cx.tables.set(tables);
    Ok(())
}

/// Sets the tables that a data set takes, where it is read without a run: those that the training data makes, or its own where there is none.
pub(crate) fn tables_without_run(
    cx: &DataContext,
    set: &DataSet,
    stop: &StopToken,
) -> Result<(), Error> {
    if set.data_tables().next().is_none() {
        return Ok(());
    }
    let trained = cx.spec.train.as_ref().and_then(|t| t.data.as_deref());
    let made_of = match trained {
        Some(name) => the_data(&cx.spec, name)?,
        None => set,
    };
    cx.tables.set(tables_of_data(cx, made_of, stop)?);
    Ok(())
}
