//! The format of a response.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// A JSON object in each line.
    JsonLines,
    /// An Arrow IPC stream.
    Arrow,
}

impl Format {
    /// The formats of rows, the default first.
    pub const ROWS: [Self; 3] = [Self::Json, Self::JsonLines, Self::Arrow];

    /// The media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// The header of a response.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(self.media_type())
    }

    /// The first format that a request accepts; JSON if it names none.
    ///
    /// # Errors
    /// A problem names the formats that there are.
    pub fn accepted(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut named = false;
        for value in headers.get_all(header::ACCEPT) {
            for part in value.to_str().unwrap_or_default().split(',') {
                let mut pieces = part.split(';').map(str::trim);
                let media = pieces.next().unwrap_or_default().to_ascii_lowercase();
                let is_refused = pieces.any(|piece| {
                    let quality = piece.strip_prefix("q=").unwrap_or("1");
                    quality.parse::<f32>().is_ok_and(|quality| quality <= 0.0)
                });
                if media.is_empty() || is_refused {
                    continue;
                }
                named = true;
                if matches!(media.as_str(), "*/*" | "application/*") {
                    return Ok(Self::Json);
                }
                let found = Self::ROWS
                    .into_iter()
                    .find(|format| format.media_type() == media);
                if let Some(found) = found {
                    return Ok(found);
                }
            }
        }
        if !named {
            return Ok(Self::Json);
        }
        let types = Self::ROWS.map(Self::media_type).join(", ");
        let text = format!("rows are sent as one of {types}: accept one of them");
        Err(Problem::http(StatusCode::NOT_ACCEPTABLE, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_format_that_fits_is_chosen() {
        let accepted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            Format::accepted(&headers).ok()
        };
        assert_eq!(Format::accepted(&HeaderMap::new()).ok(), Some(Format::Json));
        assert_eq!(accepted("*/*"), Some(Format::Json));
        assert_eq!(accepted(""), Some(Format::Json));
        assert_eq!(
            accepted("application/vnd.apache.arrow.stream"),
            Some(Format::Arrow)
        );
        assert_eq!(
            accepted("text/html, Application/X-NDJSON;q=0.5, */*"),
            Some(Format::JsonLines)
        );
        assert_eq!(accepted("application/json;q=0, text/plain"), None);
        assert_eq!(accepted("text/html"), None);
    }
}
