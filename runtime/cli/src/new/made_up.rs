//! Made-up data for templates: the same bytes on every machine, by a counter-based generator (Philox).

use std::fmt::Write;

use trainspec_compiler::ir::philox::Key;
use trainspec_formats::examples::{encode, example};

/// Draws of one data set.
struct Draws {
    key: Key,
    next: u64,
}

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws {
            key: Key(seed),
            next: 0,
        }
    }

    /// A uniform integer below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next += 1;
        (u64::from(self.key.block(self.next)[0]) * n) >> 32
    }

    /// A uniform number from 0 to 1, with four digits.
    fn unit(&mut self) -> f64 {
        self.below(10_000) as f64 / 1e4
    }

    /// A number around 0, at most 1 away: the mean of four uniform ones.
    fn around(&mut self) -> f64 {
        (0..4).map(|_| self.unit() - 0.5).sum::<f64>() / 2.0
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Points of two spirals around each other.
pub(super) fn spirals() -> String {
    let mut draws = Draws::new(1);
    let mut text = String::from("x1,x2,spiral\n");
    for i in 0..600_u32 {
        let spiral = i % 2;
        // A rotation by small steps, so that no function of the platform decides the last digit.
        let turn = 0.25 + 1.25 * draws.unit();
        let (sine, cosine) = circle(turn + 0.5 * f64::from(spiral));
        let radius = 0.65 * turn;
        let (x, y) = (
            radius * cosine + 0.06 * draws.around(),
            radius * sine + 0.06 * draws.around(),
        );
        let _ = writeln!(text, "{x:.3},{y:.3},{}", ["red", "blue"][spiral as usize]);
    }
    text
}

/// Sine and cosine of a number of turns, by their series.
fn circle(turns: f64) -> (f64, f64) {
    let x = (turns - turns.round()) * std::f64::consts::TAU;
    let (mut sine, mut cosine, mut term) = (0.0, 0.0, 1.0);
    for n in 0..30_u32 {
        match n % 4 {
            0 => cosine += term,
            1 => sine += term,
            2 => cosine -= term,
            _ => sine -= term,
        }
        term *= x / f64::from(n + 1);
    }
    (sine, cosine)
}

/// Pictures of 12 by 12 pixels, as Examples: a bar, a ring, a cross or a dot, somewhere, with noise.
pub(super) fn pictures(count: u64, seed: u64) -> Vec<Vec<u8>> {
    const SHAPES: [&str; 4] = ["bar", "ring", "cross", "dot"];
    let mut draws = Draws::new(100 + seed);
    let picture = |i: u64| {
        let shape = i % 4;
        let (cx, cy) = (4 + draws.below(4) as i64, 4 + draws.below(4) as i64);
        let size = 2 + draws.below(2) as i64;
        let mut pixels = Vec::with_capacity(144);
        for at in 0..144_i64 {
            let (dx, dy) = (at % 12 - cx, at / 12 - cy);
            let (ax, ay) = (dx.abs(), dy.abs());
            let is_set = match shape {
                0 => ax <= size && dy == 0,
                1 => ax.max(ay) == size,
                2 => (dx == 0 && ay <= size) || (dy == 0 && ax <= size),
                _ => ax.max(ay) <= 1,
            };
            let noise = draws.below(60);
            pixels.push((if is_set { 190 } else { 0 } + noise) as u8);
        }
        encode(&example([
            ("pixels", pixels.into()),
            ("shape", SHAPES[shape as usize].into()),
        ]))
    };
    (0..count).map(picture).collect()
}

/// Sentences that praise or complain.
pub(super) fn sentences() -> String {
    const THINGS: [&str; 10] = [
        "room", "soup", "film", "train", "garden", "waiter", "book", "concert", "hotel", "coffee",
    ];
    const GOOD: [&str; 8] = [
        "lovely",
        "excellent",
        "warm",
        "friendly",
        "perfect",
        "fresh",
        "quiet",
        "brilliant",
    ];
    const BAD: [&str; 8] = [
        "awful", "cold", "dirty", "boring", "rude", "late", "noisy", "stale",
    ];
    const FRAMES: [&str; 6] = [
        "the THING was QUALITY",
        "what a QUALITY THING we had",
        "i found the THING rather QUALITY and said so",
        "a QUALITY THING again this year",
        "my friends called the THING QUALITY",
        "honestly the THING could not be more QUALITY",
    ];
    let mut draws = Draws::new(3);
    let mut text = String::from("sentence,mood\n");
    for _ in 0..1000 {
        let praises = draws.below(2) == 1;
        // One in twenty says the opposite of what it means.
        let quality = match praises == (draws.below(20) > 0) {
            true => draws.of(&GOOD),
            false => draws.of(&BAD),
        };
        let sentence = draws
            .of(&FRAMES)
            .replace("THING", draws.of(&THINGS))
            .replace("QUALITY", quality);
        let mood = if praises { "praise" } else { "complaint" };
        let _ = writeln!(text, "{sentence},{mood}");
    }
    text
}

/// Views of adverts, and whether they were clicked.
pub(super) fn clicks() -> String {
    let mut draws = Draws::new(4);
    let mut text = String::from("user,advert,site,clicked\n");
    for _ in 0..4000 {
        // The smaller of two draws: a few users see most.
        let user = draws.below(300).min(draws.below(300));
        let (advert, site) = (draws.below(40), draws.below(12));
        let taste = 0.25 * (user % 5) as f64 - 0.4;
        let fit = if (advert + site) % 4 == 0 { 0.35 } else { -0.1 };
        let clicked = draws.unit() < 0.35 + taste + fit;
        let _ = writeln!(
            text,
            "u{user:03},advert-{advert:02},site-{site:02},{}",
            u8::from(clicked)
        );
    }
    text
}

/// Customers, with gaps, and whether they stayed.
pub(super) fn customers() -> String {
    let mut draws = Draws::new(5);
    let mut text = String::from("customer_id,region,plan,age,monthly_fee,calls,stayed\n");
    for id in 1..=500 {
        let region = draws.of(&["north", "south", "east", "west"]);
        let plan = draws.of(&["basic", "family", "business"]);
        let age = 18 + draws.below(60);
        let fee = 10.0 + 40.0 * draws.unit();
        let calls = draws.below(12);
        let score = 0.9 - 0.012 * fee - 0.05 * calls as f64
            + 0.004 * age as f64
            + if plan == "family" { 0.25 } else { 0.0 };
        let stayed = if score + 0.3 * draws.around() > 0.3 {
            "yes"
        } else {
            "no"
        };
        let age = if draws.below(15) == 0 {
            "NA".to_owned()
        } else {
            age.to_string()
        };
        let _ = writeln!(text, "{id},{region},{plan},{age},{fee:.2},{calls},{stayed}");
    }
    text
}
