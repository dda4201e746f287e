//! Decodes zstd as a stream. What stands before a cut or damage is read first, and the error comes after it.

use std::io::{BufRead, Error, ErrorKind, Read, Result, copy, sink};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::units;

/// Why a stream ends that is neither cut off nor a valid one.
const CORRUPT: &str = "corrupt zstd stream";

/// True if a file that begins with these bytes is compressed by zstd. `pzstd` begins with a frame that is to be skipped.
pub(super) fn is_zstd(head: &[u8]) -> bool {
    matches!(head, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// A stream of frames. It holds twice the window of one, which is 128 MiB at most, as for the program `zstd`.
pub(super) struct Decoder<R> {
    source: R,
    frame: FrameDecoder,
    has_ended: bool,
    /// Due when what was decoded before it is used up.
    failed: Option<Error>,
}

impl<R: BufRead> Decoder<R> {
    pub(super) fn new(source: R) -> Decoder<R> {
        Decoder { source, frame: FrameDecoder::new(), has_ended: false, failed: None }
    }

    /// Decodes a block, or passes to the next frame; false at the end.
    fn advance(&mut self) -> Result<bool> {
        if !self.frame.is_finished() {
            let decoded = self.frame.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
            return decoded.map(|_is_last| true).map_err(clear);
        }
        let stored = self.frame.get_checksum_from_data();
        if stored.is_some() && stored != self.frame.get_calculated_checksum() {
            return Err(corrupt("corrupt zstd stream does not have a matching checksum"));
        }
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.frame.reset(&mut self.source) {
            Ok(()) => Ok(true),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                let skipped = copy(&mut self.source.by_ref().take(length), &mut sink())?;
                if skipped < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
            }
            Err(error) => Err(clear(error)),
        }
    }

    /// Ends a frame by an empty last block and a checksum: until then the decoder keeps a window of what it has decoded.
    fn end_frame(&mut self) -> Result<()> {
        const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
        if self.frame.is_finished() {
            return Ok(());
        }
        let ended = self.frame.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1));
        ended.map(|_is_last| ()).map_err(clear)
    }

    /// Reads what is decoded, and decodes more if that is used up.
    fn collect(&mut self, into: &mut [u8]) -> Result<usize> {
        while self.frame.can_collect() == 0 {
            if self.has_ended {
                return self.failed.take().map_or(Ok(0), Err);
            }
            match self.advance() {
                Ok(is_more) => self.has_ended = !is_more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_ended = true;
                    self.failed = Some(self.end_frame().err().unwrap_or(error));
                }
            }
        }
        self.frame.read(into)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        // The library asserts some of what a damaged block may say.
        catch_unwind(AssertUnwindSafe(|| self.collect(into))).unwrap_or_else(|_panic| {
            // What it holds is in no known state.
            self.frame = FrameDecoder::new();
            self.has_ended = true;
            Err(corrupt(CORRUPT))
        })
    }
}

fn corrupt(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, why.into())
}

/// What is wrong with a stream, in the words that are used of gzip.
fn clear(error: FrameDecoderError) -> Error {
    match &error {
        FrameDecoderError::WindowSizeTooBig { requested, .. } => {
            return corrupt(format!(
                "its zstd window of {} is larger than 128 MiB: zstd -dc --long=31 FILE | blobwise trace -, or decompress it before a run",
                units::bytes(*requested as f64)
            ));
        }
        FrameDecoderError::DictNotProvided { .. } => {
            return corrupt(
                "it is compressed with a zstd dictionary: zstd -dc -D DICTIONARY FILE | blobwise trace -, or decompress it before a run",
            );
        }
        _ => {}
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(of) = cause {
        if let Some(read) = of.downcast_ref::<Error>() {
            return match read.kind() {
                ErrorKind::UnexpectedEof => ErrorKind::UnexpectedEof.into(),
                kind => Error::new(kind, read.to_string()),
            };
        }
        cause = of.source();
    }
    corrupt(CORRUPT)
}
