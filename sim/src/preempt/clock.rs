//! Times of the traces: `YYYY-MM-DD HH:MM[:SS]`, local, without a zone.

/// Seconds since 1970-01-01 00:00:00 in the trace's own time; `None` when the text is not such a time.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.split(':').map(number);
    let (hour, minute) = (time.next()??, time.next()??);
    let second = match time.next() {
        Some(second) => second?,
        None => 0,
    };
    let in_range = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && time.next().is_none();
    in_range.then(|| days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let before_year = |year: i64| {
        let past = year - 1;
        past * 365 + past / 4 - past / 100 + past / 400
    };
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    before_year(year) - before_year(1970) + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_are_read_with_and_without_seconds() {
        assert_eq!(parse_time("1970-01-01 00:00:00"), Some(0));
        assert_eq!(parse_time("2017-10-09 07:01:55"), Some(1_507_532_515));
        assert_eq!(parse_time("2017-10-09 07:01"), Some(1_507_532_460));
        assert_eq!(parse_time("2024-02-29 23:59:59"), Some(1_709_251_199));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2017-10-09",
            "2017-13-01 00:00",
            "2023-02-29 00:00",
            "2017-1-1 24:00",
            "2017-01-01 00:00:00:00",
            "2017-01-01 -1:00",
            "a-b-c d:e",
        ] {
            assert_eq!(parse_time(text), None, "{text:?}");
        }
    }
}
