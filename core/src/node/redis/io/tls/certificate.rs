//! Reads the parts of a certificate that a client needs which trusts exactly this certificate.
//!
//! The verifier of rustls reads only certificates of version 3. OpenSSL makes those of version 1 if it is given no
//! extensions, and every client of OpenSSL accepts them.

/// The tags of DER values in a certificate.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const TIME_TAG: u8 = 0x18;
const SEQUENCE_TAG: u8 = 0x30;
const VERSION_TAG: u8 = 0xa0;

/// The parts of a certificate, as RFC 5280 defines them (section 4.1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate<'a> {
    /// From when and until when it is valid, both included, in seconds since 1970.
    pub(super) validity: (u64, u64),
    /// The public key with its algorithm (`SubjectPublicKeyInfo`).
    pub(super) key: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Returns `None` for other bytes.
    pub(super) fn parse(mut der: &'a [u8]) -> Option<Self> {
        let mut certificate = DerValue::parse(&mut der, SEQUENCE_TAG)?.content;
        let mut rest = DerValue::parse(&mut certificate, SEQUENCE_TAG)?.content;
        if rest.first() == Some(&VERSION_TAG) {
            DerValue::parse(&mut rest, VERSION_TAG)?;
        }
        // The serial number, the algorithm of the signature, and the issuer.
        for tag in [INTEGER, SEQUENCE_TAG, SEQUENCE_TAG] {
            DerValue::parse(&mut rest, tag)?;
        }
        let mut validity = DerValue::parse(&mut rest, SEQUENCE_TAG)?.content;
        let validity = (time(&mut validity)?, time(&mut validity)?);
        let _subject = DerValue::parse(&mut rest, SEQUENCE_TAG)?;
        Some(Self { validity, key: DerValue::parse(&mut rest, SEQUENCE_TAG)?.whole })
    }
}

/// Splits a public key into its algorithm and its bits.
pub(super) fn key_parts(mut key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = DerValue::parse(&mut key, SEQUENCE_TAG)?.content;
    let algorithm = DerValue::parse(&mut parts, SEQUENCE_TAG)?.content;
    // The first byte counts the unused bits, of which a key has none.
    let bits = DerValue::parse(&mut parts, BITS)?.content.strip_prefix(&[0])?;
    Some((algorithm, bits))
}

/// One value in DER.
struct DerValue<'a> {
    /// With its tag and its length.
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> DerValue<'a> {
    /// Reads a value with this tag from the beginning of `rest`.
    fn parse(rest: &mut &'a [u8], tag: u8) -> Option<Self> {
        let [found, first, ..] = **rest else { return None };
        // A long length begins with the number of its bytes.
        let (header, length) = match first {
            0..=0x7f => (2, usize::from(first)),
            0x81..=0x84 => {
                let header = 2 + usize::from(first - 0x80);
                let bytes = rest.get(2..header)?;
                (header, bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
            }
            _ => return None,
        };
        let (whole, behind) = rest.split_at_checked(header.checked_add(length)?)?;
        *rest = behind;
        (found == tag).then_some(Self { whole, content: &whole[header..] })
    }
}

/// Reads a time: `YYMMDDHHMMSSZ` from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(rest: &mut &[u8]) -> Option<u64> {
    let tag = *rest.first()?;
    let digits = DerValue::parse(rest, tag)?.content.strip_suffix(b"Z")?;
    let number = |digits: &[u8]| {
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number
            .then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    let (year, digits) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (TIME_TAG, 14) => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let mut fields = digits.chunks(2).map(number);
    let mut next = |range: std::ops::RangeInclusive<u64>| {
        fields.next().flatten().filter(|field| range.contains(field))
    };
    let (month, day) = (next(1..=12)?, next(1..=31)?);
    let (hour, minute, second) = (next(0..=23)?, next(0..=59)?, next(0..=60)?);
    let days = days_since_1970(year.max(1970), month, day);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    // Every certificate from before 1970 has expired or has begun.
    Some(if year < 1970 { 0 } else { seconds })
}

/// The number of days from 1970 to a date. A year ends with February here, so that leap days come last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 153 days in each five months from March on.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(tag: u8, text: &str) -> Option<u64> {
        let length = u8::try_from(text.len()).unwrap();
        time(&mut &[&[tag, length], text.as_bytes()].concat()[..])
    }

    #[test]
    fn reads_the_times_of_certificates() {
        for (tag, text, expected) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "000229235959Z", Some(951_868_799)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(0)),
            (TIME_TAG, "20500101000000Z", Some(2_524_608_000)),
            (TIME_TAG, "99991231235959Z", Some(253_402_300_799)),
            (TIME_TAG, "21000301000000Z", Some(4_107_542_400)),
            (UTC_TIME, "001301000000Z", None),
            (UTC_TIME, "0001010000Z", None),
            (UTC_TIME, "000101000000+0100", None),
            (TIME_TAG, "2000-101000000Z", None),
            (INTEGER, "700101000000Z", None),
        ] {
            assert_eq!(seconds(tag, text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn other_bytes_are_no_certificate(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Certificate::parse(&bytes);
            let _ = key_parts(&bytes);
            let _ = time(&mut &bytes[..]);
        }
    }
}
