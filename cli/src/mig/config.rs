//! Configurations of NVIDIA mig-parted (the file of the GPU operator's MIG manager), read with the lines of everything.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use marked_yaml::types::{MarkedMappingNode, MarkedScalarNode};
use marked_yaml::{LoadError, LoaderOptions, Node, Span, parse_yaml_with_options};

/// One named configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) entries: Vec<Entry>,
}

/// One entry of a configuration: which cards, and what they should hold.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) line: usize,
    /// PCI device and vendor ids; empty for cards of any model.
    pub(crate) filter: Vec<u32>,
    /// Card indices; none for all cards.
    pub(crate) devices: Option<Vec<u32>>,
    pub(crate) enabled: bool,
    pub(crate) wanted: Vec<Wanted>,
}

impl Entry {
    /// Whether the entry is about the card of that index, model aside.
    pub(crate) fn names(&self, card: u32) -> bool {
        self.devices.as_ref().is_none_or(|devices| devices.contains(&card))
    }
}

/// Instances of one profile.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) profile: String,
    pub(crate) line: usize,
    pub(crate) count: u32,
}

/// Something to say about a line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) line: usize,
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Cannot be applied.
    Error,
    /// Worth knowing.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Note => "note",
        })
    }
}

/// What was read of a file; what could not be read is a finding.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) configs: Vec<Config>,
    pub(crate) findings: Vec<Finding>,
}

impl Document {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Document> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("{}: the file cannot be read", file.display()))?;
        let mut document = Document::default();
        let options = LoaderOptions::default().error_on_duplicate_keys(true);
        match parse_yaml_with_options(0, &text, options) {
            Ok(root) => document.root(&root),
            Err(error) => document.unreadable(&error),
        }
        Ok(document)
    }

    fn error(&mut self, line: usize, text: impl Into<String>) {
        self.findings.push(Finding { line, severity: Severity::Error, text: text.into() });
    }

    fn unreadable(&mut self, error: &LoadError) {
        let at = match error {
            LoadError::TopLevelMustBeMapping(marker)
            | LoadError::TopLevelMustBeSequence(marker)
            | LoadError::UnexpectedAnchor(marker)
            | LoadError::MappingKeyMustBeScalar(marker)
            | LoadError::UnexpectedTag(marker)
            | LoadError::ScanError(marker, _) => marker.line(),
            LoadError::DuplicateKey(twice) => line(twice.key.span()),
        };
        self.error(at, format!("the file is not the YAML that mig-parted reads: {error}"));
    }

    fn root(&mut self, root: &Node) {
        let Some(root) = root.as_mapping() else {
            return self.error(1, "the file is not a mapping; expected version and mig-configs");
        };
        self.only(root, "the file", &["version", "mig-configs"]);
        match root.get_scalar("version") {
            Some(version) if version.as_str() == "v1" => {}
            Some(version) => {
                let found = version.as_str().to_owned();
                self.error(line(version.span()), format!("version is {found:?}; expected v1"));
            }
            None => self.error(1, "version is missing; expected `version: v1`"),
        }
        let Some(configs) = root.get_mapping("mig-configs") else {
            let at = root.get_node("mig-configs").map_or(1, |node| line(node.span()));
            return self.error(at, "mig-configs is missing or not a mapping of names to lists");
        };
        if configs.is_empty() {
            self.error(line(configs.span()), "mig-configs is empty; expected at least one name");
        }
        for (name, entries) in configs.iter() {
            self.config(name, entries);
        }
        self.configs.sort_by_key(|config| config.line);
    }

    fn config(&mut self, name: &MarkedScalarNode, entries: &Node) {
        let at = line(name.span());
        let name = name.as_str().to_owned();
        let Some(list) = entries.as_sequence().filter(|list| !list.is_empty()) else {
            return self
                .error(at, format!("config {name}: expected a list with at least one entry"));
        };
        let mut config = Config { name, line: at, entries: Vec::new() };
        for node in list.iter() {
            match node.as_mapping() {
                Some(entry) => config.entries.extend(self.entry(&config.name, entry)),
                None => self.error(
                    line(node.span()),
                    format!(
                        "config {}: the entry is not a mapping; expected devices, mig-enabled and mig-devices",
                        config.name
                    ),
                ),
            }
        }
        self.configs.push(config);
    }

    fn entry(&mut self, config: &str, entry: &MarkedMappingNode) -> Option<Entry> {
        let at = entry.iter().map(|(key, _)| line(key.span())).min().unwrap_or(1);
        let before = self.findings.len();
        let what = format!("config {config}");
        self.only(entry, &what, &["device-filter", "devices", "mig-enabled", "mig-devices"]);
        let filter = entry.get_node("device-filter").map_or_else(Vec::new, |node| {
            self.list(&what, "device-filter", node, "a PCI id such as 0x233010DE", |text| {
                u32::from_str_radix(text.strip_prefix("0x").or(text.strip_prefix("0X"))?, 16).ok()
            })
        });
        let devices = match entry.get_node("devices") {
            None => {
                self.error(at, format!("{what}: devices is missing; expected all or [0, 1]"));
                None
            }
            Some(node) if node.as_scalar().is_some_and(|scalar| scalar.as_str() == "all") => None,
            Some(node) if node.as_scalar().is_some() => {
                let found = node.as_scalar().map_or("", |scalar| scalar.as_str());
                let text =
                    format!("{what}: devices is {found:?}; expected all or a list such as [0, 1]");
                self.error(line(node.span()), text);
                None
            }
            Some(node) => {
                Some(self.list(&what, "devices", node, "a card index from 0", |t| t.parse().ok()))
            }
        };
        let enabled = entry.get_scalar("mig-enabled").and_then(MarkedScalarNode::as_bool);
        if enabled.is_none() {
            let node = entry.get_node("mig-enabled");
            let text =
                format!("{what}: mig-enabled is missing or not a boolean; expected true or false");
            self.error(node.map_or(at, |node| line(node.span())), text);
        }
        let wanted = match entry.get_node("mig-devices") {
            None => Vec::new(),
            Some(node) => self.wanted(&what, node),
        };
        let enabled = enabled.unwrap_or(false);
        if enabled && entry.get_node("mig-devices").is_none() {
            let text = format!(
                "{what}: mig-enabled is true but mig-devices is missing; expected profiles with counts, or {{}}"
            );
            self.error(at, text);
        }
        if !enabled && self.findings.len() == before && wanted.iter().any(|w| w.count > 0) {
            let text = format!(
                "{what}: mig-devices are named but mig-enabled is false; set it to true or drop them"
            );
            self.error(at, text);
        }
        (self.findings.len() == before).then_some(Entry {
            line: at,
            filter,
            devices,
            enabled,
            wanted,
        })
    }

    fn wanted(&mut self, what: &str, node: &Node) -> Vec<Wanted> {
        let Some(map) = node.as_mapping() else {
            let text = format!(
                "{what}: mig-devices is not a mapping; expected profiles with counts, or {{}}"
            );
            self.error(line(node.span()), text);
            return Vec::new();
        };
        let mut wanted = Vec::new();
        for (profile, count) in map.iter() {
            let at = line(profile.span());
            let profile = profile.as_str().to_owned();
            let text = count.as_scalar().map_or("a list or mapping", |count| count.as_str());
            match text.parse() {
                Ok(count) => wanted.push(Wanted { profile, line: at, count }),
                Err(_) => self.error(
                    at,
                    format!(
                        "{what}: the count of {profile} is {text:?}; expected a whole number from 0"
                    ),
                ),
            }
        }
        wanted.sort_by_key(|wanted| wanted.line);
        wanted
    }

    /// Values of a scalar or of a list of scalars.
    fn list<T>(
        &mut self,
        what: &str,
        key: &str,
        node: &Node,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let nodes: Vec<&Node> = match node.as_sequence() {
            Some(list) => list.iter().collect(),
            None => vec![node],
        };
        let mut values = Vec::new();
        for node in nodes {
            let text = node.as_scalar().map_or("a mapping or list", |scalar| scalar.as_str());
            match parse(text) {
                Some(value) => values.push(value),
                None => self.error(
                    line(node.span()),
                    format!("{what}: {key} has {text:?}; expected {expected}"),
                ),
            }
        }
        values
    }

    fn only(&mut self, map: &MarkedMappingNode, what: &str, known: &[&str]) {
        for (key, _) in map.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let text =
                format!("{what}: unknown key {:?}; expected {}", key.as_str(), known.join(", "));
            self.error(line(key.span()), text);
        }
    }
}

fn line(span: &Span) -> usize {
    span.start().map_or(1, |marker| marker.line())
}
