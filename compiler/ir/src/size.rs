//! Symbolic sizes of dimensions: multivariate polynomials over names in canonical form, so that equal sizes compare equal.
//!
//! All arithmetic is checked: an operation whose result leaves `i64` (or grows past any sensible polynomial) gives `None`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The maximal number of elements of a tensor.
pub const MAX_ELEMENTS: i64 = 1 << 40;

/// The maximal number of terms of a polynomial: far above what shapes need, far below what would slow a check down.
const MAX_TERMS: usize = 256;
/// The maximal degree of a monomial.
const MAX_DEGREE: u32 = 64;
/// The maximal length of the two sides of a quotient together, by [`Size::length`].
const MAX_QUOTIENT_LENGTH: usize = 256;

/// How large a dimension is: a number, or a polynomial over names that are bound later.
///
/// ```
/// use trainspec_ir::Size;
///
/// let batch = Size::named("batch");
/// let twice = batch.add(&batch).unwrap();
/// assert_eq!(twice, Size::fixed(2).mul(&batch).unwrap());
/// assert_eq!(twice.to_string(), "2 * batch");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(Repr);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    Fixed(i64),
    /// Never constant: a constant polynomial is `Fixed`.
    Symbolic(Arc<Terms>),
}

/// A monomial: atoms with their powers, sorted; the empty product is 1.
type Monomial = Vec<(Atom, u32)>;
/// Coefficients by monomial; no coefficient is zero.
type Terms = BTreeMap<Monomial, i64>;

/// An indeterminate of a polynomial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Atom {
    Name(Arc<str>),
    /// The floor quotient, where it is not a polynomial itself.
    Quotient(Size, Size),
}

impl Size {
    /// A static size.
    pub fn fixed(n: i64) -> Size {
        Size(Repr::Fixed(n))
    }

    /// A symbolic size: a name that is bound later.
    pub fn named(name: &str) -> Size {
        Size::atom(Atom::Name(name.into()))
    }

    /// The number, where the size is static.
    pub fn value(&self) -> Option<i64> {
        match &self.0 {
            Repr::Fixed(n) => Some(*n),
            Repr::Symbolic(_) => None,
        }
    }

    /// The name, where the size is a name and nothing else.
    pub fn as_name(&self) -> Option<&str> {
        let Repr::Symbolic(terms) = &self.0 else {
            return None;
        };
        match terms.iter().next() {
            Some((product, 1)) if terms.len() == 1 => match product.as_slice() {
                [(Atom::Name(name), 1)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The sum; `None` on overflow.
    pub fn add(&self, other: &Size) -> Option<Size> {
        if let (Repr::Fixed(a), Repr::Fixed(b)) = (&self.0, &other.0) {
            return a.checked_add(*b).map(Size::fixed);
        }
        match (self.value(), other.value()) {
            (Some(0), _) => return Some(other.clone()),
            (_, Some(0)) => return Some(self.clone()),
            _ => {}
        }
        let mut terms = self.terms();
        for (product, coefficient) in other.terms() {
            add_term(&mut terms, product, coefficient)?;
        }
        Some(Size::from_terms(terms))
    }

    /// The difference; `None` on overflow.
    pub fn sub(&self, other: &Size) -> Option<Size> {
        self.add(&other.mul(&Size::fixed(-1))?)
    }

    /// The product; `None` on overflow.
    pub fn mul(&self, other: &Size) -> Option<Size> {
        if let (Repr::Fixed(a), Repr::Fixed(b)) = (&self.0, &other.0) {
            return a.checked_mul(*b).map(Size::fixed);
        }
        match (self.value(), other.value()) {
            (Some(1), _) => return Some(other.clone()),
            (_, Some(1)) => return Some(self.clone()),
            _ => {}
        }
        let mut terms = Terms::new();
        for (p, a) in self.terms() {
            for (q, b) in other.terms() {
                add_term(&mut terms, multiply(&p, &q)?, a.checked_mul(b)?)?;
            }
        }
        Some(Size::from_terms(terms))
    }

    /// The floor quotient; `None` for a division by zero, on overflow, or where the quotient is too long.
    pub fn floor_div(&self, other: &Size) -> Option<Size> {
        match (&self.0, &other.0) {
            (_, Repr::Fixed(0)) => None,
            (Repr::Fixed(a), Repr::Fixed(b)) => {
                let quotient = a.checked_div(*b)?;
                let below = a % b != 0 && (a % b < 0) != (*b < 0);
                Some(Size::fixed(if below { quotient - 1 } else { quotient }))
            }
            _ => match self.div_exact(other) {
                Some(quotient) => Some(quotient),
                None if self.length() + other.length() > MAX_QUOTIENT_LENGTH => None,
                None => Some(Size::atom(Atom::Quotient(self.clone(), other.clone()))),
            },
        }
    }

    /// The ceiling quotient, for a positive divisor; `None` where [`Size::floor_div`] has none.
    pub fn ceil_div(&self, other: &Size) -> Option<Size> {
        self.add(other)?.sub(&Size::fixed(1))?.floor_div(other)
    }

    /// The exact quotient, where `other` divides this polynomial without remainder, whatever the names stand for.
    pub fn div_exact(&self, other: &Size) -> Option<Size> {
        if let (Repr::Fixed(a), Repr::Fixed(b)) = (&self.0, &other.0) {
            return (*b != 0 && a.checked_rem(*b)? == 0).then(|| Size::fixed(a / b));
        }
        let divisor = other.terms();
        let (lead_product, lead_coefficient) = leading(&divisor)?;
        let mut remainder = self.clone();
        let mut quotient = Size::fixed(0);
        // Polynomial long division by the leading term. Every iteration removes the leading term of `remainder` and adds only
        // smaller ones; the bound keeps it from taking long where the quotient has very many terms.
        for _ in 0..MAX_TERMS {
            if remainder == Size::fixed(0) {
                return Some(quotient);
            }
            let terms = remainder.terms();
            let (product, coefficient) = leading(&terms)?;
            if coefficient.checked_rem(*lead_coefficient)? != 0 {
                return None;
            }
            let factor = Size::from_terms(Terms::from([(
                divide(product, lead_product)?,
                coefficient / lead_coefficient,
            )]));
            quotient = quotient.add(&factor)?;
            remainder = remainder.sub(&factor.mul(other)?)?;
        }
        None
    }

    /// The remainder of the floor division, with the sign of the divisor; `None` where [`Size::floor_div`] has none.
    pub fn rem(&self, other: &Size) -> Option<Size> {
        self.sub(&self.floor_div(other)?.mul(other)?)
    }

    /// The number of terms and names of the polynomial: 1 for a static size.
    pub fn length(&self) -> usize {
        let Repr::Symbolic(terms) = &self.0 else {
            return 1;
        };
        let atoms = terms.keys().flatten().map(|(atom, _)| match atom {
            Atom::Name(_) => 1,
            Atom::Quotient(a, b) => a.length() + b.length(),
        });
        terms.len() + atoms.sum::<usize>()
    }

    /// The names that the size depends on, each once.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        self.collect_names(&mut names);
        names.sort();
        names.dedup();
        names
    }

    /// The size with every name replaced by what `bind` gives for it; names without a binding stay. `None` on overflow or where a
    /// divisor becomes zero.
    pub fn substitute(&self, bind: &dyn Fn(&str) -> Option<Size>) -> Option<Size> {
        if let Repr::Fixed(_) = self.0 {
            return Some(self.clone());
        }
        let mut sum = Size::fixed(0);
        for (product, coefficient) in self.terms() {
            let mut term = Size::fixed(coefficient);
            for (atom, power) in product {
                let value = match &atom {
                    Atom::Name(name) => bind(name).unwrap_or_else(|| Size::named(name)),
                    Atom::Quotient(a, b) => a.substitute(bind)?.floor_div(&b.substitute(bind)?)?,
                };
                for _ in 0..power {
                    term = term.mul(&value)?;
                }
            }
            sum = sum.add(&term)?;
        }
        Some(sum)
    }

    fn collect_names(&self, names: &mut Vec<Arc<str>>) {
        for product in self.terms().keys() {
            for (atom, _) in product {
                match atom {
                    Atom::Name(name) => names.push(name.clone()),
                    Atom::Quotient(a, b) => {
                        a.collect_names(names);
                        b.collect_names(names);
                    }
                }
            }
        }
    }

    fn atom(atom: Atom) -> Size {
        Size(Repr::Symbolic(Arc::new(Terms::from([(
            vec![(atom, 1)],
            1,
        )]))))
    }

    fn terms(&self) -> Terms {
        match &self.0 {
            Repr::Fixed(0) => Terms::new(),
            Repr::Fixed(n) => Terms::from([(Vec::new(), *n)]),
            Repr::Symbolic(terms) => (**terms).clone(),
        }
    }

    fn from_terms(terms: Terms) -> Size {
        if terms.is_empty() {
            return Size::fixed(0);
        }
        match terms.get(&Vec::new()) {
            Some(n) if terms.len() == 1 => Size::fixed(*n),
            _ => Size(Repr::Symbolic(Arc::new(terms))),
        }
    }
}

impl From<i64> for Size {
    fn from(n: i64) -> Size {
        Size::fixed(n)
    }
}

/// Adds a term in place; `None` on overflow or where the polynomial is too long.
fn add_term(terms: &mut Terms, product: Monomial, coefficient: i64) -> Option<()> {
    let sum = terms
        .get(&product)
        .copied()
        .unwrap_or(0)
        .checked_add(coefficient)?;
    if sum == 0 {
        terms.remove(&product);
    } else {
        terms.insert(product, sum);
    }
    (terms.len() <= MAX_TERMS).then_some(())
}

/// The leading term in graded lexicographic order: a monomial order, without which long division would miss quotients.
fn leading(terms: &Terms) -> Option<(&Monomial, &i64)> {
    let degree = |p: &Monomial| p.iter().map(|(_, power)| u64::from(*power)).sum::<u64>();
    terms.iter().max_by(|(a, _), (b, _)| {
        degree(a).cmp(&degree(b)).then_with(|| {
            let differ = a.iter().zip(b.iter()).find(|(x, y)| x != y);
            differ.map_or(Ordering::Equal, |((p, m), (q, n))| q.cmp(p).then(m.cmp(n)))
        })
    })
}

/// The product of two monomials; `None` where its degree is too high.
fn multiply(a: &Monomial, b: &Monomial) -> Option<Monomial> {
    let degree: u32 = a.iter().chain(b).map(|(_, power)| power).sum();
    if degree > MAX_DEGREE {
        return None;
    }
    let mut powers: BTreeMap<Atom, u32> = a.iter().cloned().collect();
    for (atom, power) in b {
        *powers.entry(atom.clone()).or_insert(0) += power;
    }
    Some(powers.into_iter().collect())
}

/// The quotient of two monomials, where `b` divides `a`.
fn divide(a: &Monomial, b: &Monomial) -> Option<Monomial> {
    let mut powers: BTreeMap<Atom, u32> = a.iter().cloned().collect();
    for (atom, power) in b {
        let have = powers.get_mut(atom)?;
        *have = have.checked_sub(*power)?;
    }
    Some(powers.into_iter().filter(|(_, power)| *power > 0).collect())
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = match &self.0 {
            Repr::Fixed(n) => return write!(f, "{n}"),
            Repr::Symbolic(terms) => terms,
        };
        // Products before the constant, which reads `batch + 1` as people write it.
        let ordered = terms
            .iter()
            .filter(|(p, _)| !p.is_empty())
            .chain(terms.iter().filter(|(p, _)| p.is_empty()));
        for (i, (product, coefficient)) in ordered.enumerate() {
            let sign = match (i, *coefficient < 0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            };
            f.write_str(sign)?;
            let size = coefficient.unsigned_abs();
            let mut factors = Vec::new();
            if size != 1 || product.is_empty() {
                factors.push(size.to_string());
            }
            for (atom, power) in product {
                for _ in 0..*power {
                    factors.push(atom.to_string());
                }
            }
            f.write_str(&factors.join(" * "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Name(name) => f.write_str(name),
            Atom::Quotient(a, b) => write!(f, "floor({} / {})", Bracketed(a), Bracketed(b)),
        }
    }
}

/// A size as an operand of a quotient: a sum is in parentheses.
struct Bracketed<'a>(&'a Size);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let single = match &self.0.0 {
            Repr::Fixed(_) => true,
            Repr::Symbolic(terms) => terms.len() == 1,
        };
        if single {
            write!(f, "{}", self.0)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(name: &str) -> Size {
        Size::named(name)
    }

    #[test]
    fn products_commute() {
        assert_eq!(n("a").mul(&n("b")), n("b").mul(&n("a")));
    }

    #[test]
    fn differences_cancel() {
        let sum = n("a").add(&n("b")).unwrap();
        assert_eq!(sum.sub(&n("b")).unwrap(), n("a"));
        assert_eq!(n("a").sub(&n("a")).unwrap(), Size::fixed(0));
    }

    #[test]
    fn exact_division_finds_polynomial_quotients() {
        let a = n("a").add(&Size::fixed(1)).unwrap();
        let product = a.mul(&n("b")).unwrap();
        assert_eq!(product.div_exact(&a), Some(n("b")));
        assert_eq!(product.div_exact(&n("b")), Some(a.clone()));
        assert_eq!(a.div_exact(&n("b")), None);
    }

    #[test]
    fn quotients_that_are_no_polynomials_compare_equal() {
        let half = |s: &Size| s.ceil_div(&Size::fixed(2)).unwrap();
        assert_eq!(half(&n("h")), half(&n("h")));
        assert_eq!(half(&n("h")).to_string(), "floor((h + 1) / 2)");
        let bound = half(&n("h")).substitute(&|_| Some(Size::fixed(5))).unwrap();
        assert_eq!(bound, Size::fixed(3));
    }

    #[test]
    fn overflow_is_none() {
        assert_eq!(Size::fixed(i64::MAX).add(&Size::fixed(1)), None);
        assert_eq!(Size::fixed(i64::MIN).floor_div(&Size::fixed(-1)), None);
        let big = Size::fixed(i64::MAX).mul(&n("a")).unwrap();
        assert_eq!(big.mul(&Size::fixed(2)), None);
        let min = Size::fixed(i64::MIN).mul(&n("a")).unwrap();
        assert_eq!(min.div_exact(&Size::fixed(-1)), None);
    }

    #[test]
    fn floor_division_rounds_down() {
        assert_eq!(
            Size::fixed(-7).floor_div(&Size::fixed(2)),
            Some(Size::fixed(-4))
        );
        assert_eq!(Size::fixed(7).rem(&Size::fixed(-2)), Some(Size::fixed(-1)));
    }
}
