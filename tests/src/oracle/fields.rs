//! Objects of JSON, read completely: a field that nobody reads is reported.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

/// The fields of an object, and which of them were read.
#[derive(Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Json>,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    /// The fields of a value, which must be an object.
    pub fn of(json: &'a Json) -> Result<Fields<'a>, String> {
        match json {
            Json::Object(map) => Ok(Fields {
                map,
                read: RefCell::default(),
            }),
            other => Err(format!("`{}` is no object", shortened(other))),
        }
    }

    /// A field; `None` where it is left out or null.
    pub fn get(&self, name: &str) -> Option<&'a Json> {
        self.read.borrow_mut().insert(name.to_owned());
        self.map.get(name).filter(|json| !json.is_null())
    }

    /// A field that must be there.
    pub fn need(&self, name: &str) -> Result<&'a Json, String> {
        self.get(name)
            .ok_or_else(|| format!("`{name}` is not given"))
    }

    /// A string that must be there.
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        let json = self.need(name)?;
        json.as_str()
            .ok_or_else(|| format!("`{name}` is no string: {}", shortened(json)))
    }

    /// A list that must be there.
    pub fn list(&self, name: &str) -> Result<&'a [Json], String> {
        let json = self.need(name)?;
        json.as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| format!("`{name}` is no list: {}", shortened(json)))
    }

    /// Says which fields nobody read.
    pub fn done(&self, what: &str) -> Result<(), String> {
        let read = self.read.borrow();
        let left: Vec<&str> = self
            .map
            .keys()
            .map(String::as_str)
            .filter(|name| !read.contains(*name))
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("{what} that is not known: `{}`", left.join("`, `"))),
        }
    }
}

/// The begin of a value's text.
pub fn shortened(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
