//! Audio summaries: clips as WAV files.

use crate::error::Result;
use crate::events::summary::{DisplayMetadata, batch_tag, clean_tag, count, of_plugin, refused};
use crate::proto::Summary;
use crate::proto::summary::value::Value as Kind;
use crate::proto::summary::{Audio, Value};
use crate::tensor::Tensor;

/// A batch of audio clips: `[clips, frames, channels]`, or `[clips, frames]` for one channel.
#[derive(Debug, Clone, Copy)]
pub struct AudioClips<'a> {
    /// Its shape.
    pub shape: &'a [usize],
    /// Its samples, clamped to -1 to 1.
    pub samples: &'a [f32],
    /// The sample rate in hertz.
    pub sample_rate: f32,
}

/// Audio clips (`tf.compat.v1.summary.audio`), each a value of its own: `tag/audio/0` and so on, or `tag/audio` if only one is kept.
pub fn audio(tag: &str, clips: AudioClips<'_>, max_outputs: usize) -> Result<Summary> {
    let tag = clean_tag(tag);
    let [all, frames, channels] = extents(clips)?;
    let mut summary = Summary::default();
    for i in 0..all.min(max_outputs) {
        let audio = Audio {
            sample_rate: clips.sample_rate,
            num_channels: channels as i64,
            length_frames: frames as i64,
            encoded_audio_string: wav(clips, i, frames, channels)?,
            content_type: "audio/wav".to_owned(),
        };
        summary.value.push(Value {
            tag: batch_tag(&tag, "audio", max_outputs, i),
            value: Some(Kind::Audio(audio)),
            ..Default::default()
        });
    }
    Ok(summary)
}

/// Audio clips as one tensor (`tf.summary.audio`): a row of the WAV file and an empty label for each.
pub fn audio_tensor(
    tag: &str,
    clips: AudioClips<'_>,
    max_outputs: usize,
    about: DisplayMetadata<'_>,
) -> Result<Summary> {
    let [all, frames, channels] = extents(clips)?;
    let kept = all.min(max_outputs);
    let mut strings = Vec::with_capacity(2 * kept);
    for i in 0..kept {
        strings.push(wav(clips, i, frames, channels)?);
        strings.push(Vec::new());
    }
    let value = Tensor::strings(&[kept, 2], strings)?;
    // `AudioPluginData.encoding` (field 2): WAV (11).
    Ok(of_plugin(
        tag,
        value.into_message()?,
        "audio",
        vec![0x10, 11],
        about,
    ))
}

fn extents(clips: AudioClips<'_>) -> Result<[usize; 3]> {
    let shape = clips.shape;
    let extents = match *shape {
        [all, frames] => [all, frames, 1],
        [all, frames, channels] => [all, frames, channels],
        _ => {
            let cause = format!("audio has 2 or 3 dimensions, not {}", shape.len());
            return Err(refused(cause));
        }
    };
    let held = clips.samples.len();
    match count(shape) == Some(held) {
        true => Ok(extents),
        false => Err(refused(format!(
            "{held} samples do not have shape {shape:?}"
        ))),
    }
}

/// A WAV file: a header of 44 bytes, then 16-bit little-endian PCM samples.
fn wav(clips: AudioClips<'_>, i: usize, frames: usize, channels: usize) -> Result<Vec<u8>> {
    // Ties round to even, as in TensorFlow.
    let rate = f64::from(clips.sample_rate).round_ties_even();
    if !(rate >= 1.0 && rate <= f64::from(u32::MAX)) {
        let cause = format!("a sample rate of {} Hz is not possible", clips.sample_rate);
        return Err(refused(cause));
    }
    let rate = rate as u32;
    let too_long = || {
        refused(format!(
            "{frames} frames of {channels} channels are no WAV file"
        ))
    };
    let channel_count = u16::try_from(channels).ok().filter(|&n| n > 0);
    let channel_count = channel_count.ok_or_else(too_long)?;
    let frame = channel_count.checked_mul(2).ok_or_else(too_long)?;
    let rate_in_bytes = rate.checked_mul(frame.into()).ok_or_else(too_long)?;
    let samples = &clips.samples[i * frames * channels..(i + 1) * frames * channels];
    let size = u32::try_from(2 * samples.len()).ok();
    let whole = size.and_then(|size| size.checked_add(36));
    let (size, whole) = size.zip(whole).ok_or_else(too_long)?;

    let mut file = Vec::with_capacity(44 + 2 * samples.len());
    file.extend(b"RIFF");
    file.extend(whole.to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend(1_u16.to_le_bytes());
    file.extend(channel_count.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend(rate_in_bytes.to_le_bytes());
    file.extend(frame.to_le_bytes());
    file.extend(16_u16.to_le_bytes());
    file.extend(b"data");
    file.extend(size.to_le_bytes());
    // The cast saturates, and turns NaN into silence.
    let sample = |v: &f32| (v * 32768.0).round() as i16;
    file.extend(samples.iter().flat_map(|v| sample(v).to_le_bytes()));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shape: &[usize], samples: &[f32], sample_rate: f32) -> Result<Summary> {
        let clips = AudioClips {
            shape,
            samples,
            sample_rate,
        };
        audio("a", clips, 1)
    }

    #[test]
    fn samples_are_clamped_and_rates_rounded() {
        let samples = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5];
        let summary = of(&[1, 4], &samples, 44100.7).unwrap();
        let Some(Kind::Audio(audio)) = &summary.value[0].value else {
            panic!("{summary:?}");
        };
        let file = &audio.encoded_audio_string;
        assert_eq!(file[24..28], 44101_u32.to_le_bytes());
        assert_eq!(file[44..], [0, 0, 0xff, 0x7f, 0, 0x80, 0, 0x40]);
        let mut reader = hound::WavReader::new(&file[..]).unwrap();
        let read: Vec<i16> = reader.samples().map(|sample| sample.unwrap()).collect();
        assert_eq!(read, [0, 32767, -32768, 16384]);
    }

    #[test]
    fn invalid_audio_is_refused() {
        assert!(of(&[1, 0, 1], &[], 8000.0).is_ok());
        for rate in [0.0, 0.4, -5.0, f32::NAN, f32::INFINITY] {
            assert!(of(&[1, 1], &[0.0], rate).is_err(), "{rate}");
        }
        assert!(of(&[4], &[0.0; 4], 8000.0).is_err());
        assert!(of(&[1, 4, 0], &[], 8000.0).is_err());
        assert!(of(&[1, 3], &[0.0; 4], 8000.0).is_err());
        assert!(of(&[1, 1, 40_000], &vec![0.0; 40_000], 8000.0).is_err());
    }
}
