//! The model of a checkpoint as one file of its own (`safetensors`), to predict with elsewhere.
//!
//! In: a spec and a checkpoint of its run. Out: the variables of the model, or their averages under the names of the variables, with the tables
//! of the training data and the words of outputs. Leaves alone: slots and the position of the input, without which a run does not go
//! on exactly.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::typed::{Remainder, Spec};

use crate::data::DataContext;
use crate::data::tables::TABLES_RECORD;
use crate::predict::variables;
use crate::saver::{
    Format, HELD_RECORD, OTHER_MODEL, Records, RestoreOptions, Saver, SaverOptions, Strictness,
    VarList, restore_in,
};
use crate::session::{Options, Session, the_model, the_train};
use crate::training_tables::the_tables;
use crate::{Error, Vocabulary};

/// The name of the number of updates in a state.
const GLOBAL_STEP: &str = "global_step";

/// A model that was exported.
///
/// ```
/// # fn see(exported: &trainspec::Exported) {
/// println!("{} parameters after {} steps", exported.parameters, exported.step);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Exported {
    /// The number of updates.
    pub step: u64,
    /// The names of its variables, with their types.
    pub variables: Vec<(String, String)>,
    /// The number of trained elements.
    pub parameters: u64,
    /// The outputs that are ids of words, with their words.
    pub words: Vec<(String, Arc<Vocabulary>)>,
}

/// Writes the variables of the model in a checkpoint as a `safetensors` file at `prefix` with that ending; with `ema`, averages take the place of
/// their variables. [`Session::restore`] and `trainspec predict` read it.
///
/// ```
/// use trainspec::{Options, Session, check, export};
///
/// let spec = check("line", "
///     spec line;
///     model (x: f32[batch]) { param a: f32 = constant(2.0); loss mean(a * x); output y = a * x; }
///     train { optimizer adam(0.1); }
/// ")?;
/// let folder = std::env::temp_dir().join(format!("trainspec-export-{}", std::process::id()));
/// let options = Options::default();
/// let checkpoint = Session::new(&spec, &options)?.save(folder.join("line"))?;
/// let exported = export(&spec, &options, &checkpoint, false, &folder.join("model"))?;
/// assert_eq!((exported.step, exported.parameters), (0, 1));
///
/// let mut session = Session::uninitialized(&spec, &options)?;
/// session.restore(folder.join("model.safetensors"))?;
/// assert_eq!(session.state().get("a").unwrap().to_f64s(), [2.0]);
/// # std::fs::remove_dir_all(folder).map_err(Error::other)?;
/// # use trainspec::Error;
/// # Ok::<(), Error>(())
/// ```
pub fn export(
    spec: &Arc<Spec>,
    options: &Options,
    checkpoint: &Path,
    ema: bool,
    prefix: &Path,
) -> Result<Exported, Error> {
    let train = the_train(spec)?;
    let model = the_model(spec)?;
    let storage = &options.env.storage;
    let mut session = Session::uninitialized(spec, options)?;
    let mut list = variables(spec, ema)?;
    let names: Vec<String> = spec.variables.iter().map(|v| v.name.clone()).collect();
    let restore = |list: VarList| RestoreOptions {
        var_list: list,
        strictness: Strictness::Partial,
        ..RestoreOptions::default()
    };
    if let VarList::Map(list) = &mut list {
        list.insert(GLOBAL_STEP.to_owned(), GLOBAL_STEP.to_owned());
    }
    let mut restored = restore_in(storage, session.state_mut(), checkpoint, &restore(list))?;
    // A model that another program has trained may have no step.
    (restored.plan.missing).retain(|one| one.variable != GLOBAL_STEP);
    restored.plan.require(OTHER_MODEL)?;
    let cx = DataContext {
        remainder: Remainder::Keep,
        training: false,
        ..DataContext::of(spec, options, train.seed)
    };
    the_tables(&cx, Some(checkpoint), &options.stop)?;
    session.keep_tables(&cx.tables);
    let mut records = Records::default();
    if let Some(tables) = session.records().get(TABLES_RECORD) {
        records.insert(TABLES_RECORD, tables);
    }
    let held: Vec<String> = [names.clone(), vec![GLOBAL_STEP.to_owned()]].concat();
    records.insert(HELD_RECORD, held.join("\n"));
    let saver = SaverOptions {
        var_list: VarList::Names(held),
        format: Format::Safetensors,
        write_state: false,
        create_folder: true,
        ..SaverOptions::default()
    };
    Saver::new_in(storage, saver)?.save(session.state(), &records, prefix, None)?;
    let mut words = Vec::new();
    for output in &model.eval.words {
        if let Some(vocabulary) = session.vocabulary(&output.output)? {
            words.push((output.output.clone(), vocabulary));
        }
    }
    let types = spec.variables.iter().map(|v| v.ty.to_string());
    Ok(Exported {
        step: session.global_step(),
        variables: names.into_iter().zip(types).collect(),
        parameters: crate::session::parameters(spec),
        words,
    })
}
