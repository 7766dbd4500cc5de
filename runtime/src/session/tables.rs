//! The tables of a session: vocabularies that give the words of predicted ids.

use std::sync::Arc;

use trainspec_compiler::typed::{self, WordSource};

use crate::Error;
use crate::data::tables::{TABLES_RECORD, Tables};
use crate::data::{SharedTables, Vocabulary};
use crate::session::Session;

impl Session {
    /// Keeps the tables of the training data in the records, so that every checkpoint holds them.
    pub(crate) fn keep_tables(&mut self, tables: &SharedTables) {
        let tables = tables.get().filter(|tables| !tables.is_empty());
        if let Some(tables) = tables {
            self.records.insert(TABLES_RECORD, tables.to_text());
        }
    }

    /// The vocabulary of an output that is declared with `words_of`, by the name of the output; or a vocabulary of the training data, by
    /// its own: that of the feature it was made for. It turns ids into words. `None` where there is none of that name.
    ///
    /// ```
    /// use trainspec::ndarray::array;
    /// use trainspec::session::{Options, Session};
    /// use trainspec::InputView;
    ///
    /// let text = r#"spec parity;
    ///     data numbers {
    ///         source csv("numbers.csv", header: true);
    ///         feature x: f32;
    ///         feature kind: string;
    ///         map kind = vocabulary(kind, from: ["even", "odd"], oov: 0);
    ///         batch 2;
    ///     }
    ///     model (x: f32[batch], kind: i64[batch] in 0..2) {
    ///         param a: f32 = ones();
    ///         loss mean(square(a * x - cast(kind, f32)));
    ///         output guess = words_of(cast(a * x > 0.5, i64), kind);
    ///     }
    ///     train { data numbers; optimizer gradient_descent(0.1); }"#;
    /// let spec = trainspec::check("parity", text)?;
    /// let mut session = Session::new(&spec, &Options::default())?;
    /// let x = array![0.0_f32, 1.0];
    /// let guess = session.predict(&[("x", InputView::from(&x))])?.get("output/guess").unwrap().clone();
    /// let words = session.vocabulary("guess")?.unwrap().words(&guess)?;
    /// assert_eq!(words.values::<Vec<u8>>().unwrap(), [b"even".to_vec(), b"odd".to_vec()]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn vocabulary(&self, name: &str) -> Result<Option<Arc<Vocabulary>>, Error> {
        let model = self.spec.model.iter();
        let mut outputs = model.flat_map(|model| &model.eval.words);
        let tied = outputs.find(|words| words.output == name);
        let table = tied.map_or(name, |words| words.vocabulary.as_str());
        if let Some(text) = self.records.get(TABLES_RECORD)
            && let Some(vocabulary) = Tables::parse(text)?.vocabulary(table)
        {
            return Ok(Some(vocabulary.clone()));
        }
        // What the spec lists needs no checkpoint.
        let train = self.spec.train.as_ref().and_then(|t| t.data.as_ref());
        let set = self.spec.data.iter().find(|set| Some(&set.name) == train);
        match set.and_then(|set| set.vocabulary(table)) {
            Some(typed::Vocabulary {
                words: WordSource::List(words),
                oov,
                ..
            }) => Ok(Some(Arc::new(Vocabulary::new(words, *oov)?))),
            Some(_) | None => Ok(None),
        }
    }
}
