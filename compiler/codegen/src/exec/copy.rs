//! Parallel copies of tensors into memory that is there already, by the threads of a pool.

use trainspec_ir::Tensor;
use trainspec_ir::tensor::{Data, Element};

use crate::exec::parallel;
use crate::exec::pool::Pool;

/// The bytes that one task copies: enough to be worth a task, few enough that threads share a tensor evenly.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies the elements of a tensor over those of another one of the same type. Nothing is allocated, unless they are strings.
///
/// ```
/// use trainspec_codegen::exec::{copy_into, pool::Pool};
/// use trainspec_ir::Tensor;
///
/// let from = Tensor::new(&[3], vec![1.0_f32, 2.0, 3.0]);
/// let mut to = Tensor::new(&[3], vec![0.0_f32; 3]);
/// copy_into(&Pool::new(2), &from, &mut to);
/// assert_eq!(to, from);
/// ```
///
/// # Panics
///
/// When they are of different types.
pub fn copy_into(pool: &Pool, from: &Tensor, to: &mut Tensor) {
    assert_eq!(
        from.ty(),
        to.ty(),
        "a copy has the type of what it is made of"
    );
    match from.data() {
        Data::F16(values) => copy(pool, values, to),
        Data::Bf16(values) => copy(pool, values, to),
        Data::F32(values) => copy(pool, values, to),
        Data::F64(values) => copy(pool, values, to),
        Data::I8(values) => copy(pool, values, to),
        Data::I16(values) => copy(pool, values, to),
        Data::I32(values) => copy(pool, values, to),
        Data::I64(values) => copy(pool, values, to),
        Data::U8(values) => copy(pool, values, to),
        Data::Bool(values) => copy(pool, values, to),
        Data::String(_) => *to = from.clone(),
    }
}

fn copy<T: Element + Copy + Send + Sync>(pool: &Pool, from: &[T], to: &mut Tensor) {
    let to = to.values_mut::<T>().expect("both are of one type");
    let size = (CHUNK_BYTES / size_of::<T>()).max(1);
    parallel::chunks_mut(pool, to, size, |i, chunk| {
        let start = i * size;
        chunk.copy_from_slice(&from[start..start + chunk.len()]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tensors_are_copied_in_chunks_of_every_type() {
        let pool = Pool::exactly(3);
        let count = 2 * CHUNK_BYTES + 17;
        let tensors = [
            Tensor::new(&[count], (0..count).map(|i| i as u8).collect()),
            Tensor::new(&[count], (0..count).map(|i| i % 3 == 0).collect()),
            Tensor::new(&[count], (0..count).map(|i| i as f64).collect::<Vec<f64>>()),
            Tensor::new(&[0], Vec::<f32>::new()),
            Tensor::new(&[1], vec![b"string".to_vec()]),
        ];
        for from in tensors {
            let mut to = match from.data() {
                Data::String(_) => Tensor::new(&[1], vec![Vec::<u8>::new()]),
                _ => Tensor::zeros(&from.ty()),
            };
            copy_into(&pool, &from, &mut to);
            assert_eq!(to, from);
        }
    }
}
