//! A blocking client of PostgreSQL's protocol with minimal copying: blobs are sent from the caller's memory and lent as they
//! arrive.
//!
//! One request at a time, over a Unix socket, TCP or TLS. Values use the binary format in both directions, except for the
//! results of [`Client::simple`]. A connection is unusable after a reply that was not read to its end.

mod incoming;
mod pooler;
mod request;
mod trouble;
mod url;

use std::io::{Read, Write};

use bytes::BytesMut;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

use self::incoming::{Incoming, MessageHeader};
pub use self::request::StatementParameter;
pub(crate) use self::request::{BIGINT, BYTEA, TEXT};
use self::request::{RequestBuilder, StatementName};
pub use self::trouble::{PostgresError, ServerError};
pub use self::url::ConnectionParameters;
use self::url::PostgresAddress;
use crate::wire::stream::{Stream, tcp};
use crate::wire::tls::{self, TlsMode, TlsRequest};

/// The result of a request.
pub type Result<T> = std::result::Result<T, PostgresError>;

/// Receives the values of a reply: the column, and the value or a piece of it; `None` for NULL. Values of up to
/// [`incoming::WHOLE_BYTES`] are passed whole, larger ones in pieces, in order.
pub type ValueSink<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>);

/// A prepared statement of a connection.
#[derive(Clone, Copy)]
pub struct Statement {
    name: StatementName,
    columns: usize,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Rows received.
    pub rows: u64,
    /// Rows that the last command found or changed.
    pub count: u64,
    /// True if the last command ended a transaction without committing it.
    pub rolled_back: bool,
    /// Commands completed.
    commands: u64,
    /// Columns of the last result.
    columns: Option<usize>,
}

/// A connection that sends requests and lends the pieces of their answers.
pub struct PostgresClient<S: Read + Write = Stream> {
    socket: S,
    incoming: Incoming,
    /// Buffer in which requests are assembled.
    outgoing: BytesMut,
    statements: u32,
    /// Process id of the server process, from the greeting.
    greeted_by: Option<u32>,
    /// True if the last reply was read to its end.
    usable: bool,
}

impl PostgresClient {
    /// Connects and logs in. Where TLS is optional, a server that refuses the one way is asked in the other, as by libpq.
    pub fn connect(config: &ConnectionParameters) -> Result<PostgresClient> {
        let encrypts = config.tls.mode > TlsMode::Allow;
        match PostgresClient::connect_by(config, encrypts) {
            Err(trouble) if config.tls.mode.is_optional() && trouble.is_of_tls() => {
                // If both fail, an error that does not concern TLS, such as a wrong password, is the one to report.
                let told = |other: PostgresError| if other.is_of_tls() { trouble } else { other };
                PostgresClient::connect_by(config, !encrypts).map_err(told)
            }
            outcome => outcome,
        }
    }

    fn connect_by(config: &ConnectionParameters, encrypts: bool) -> Result<PostgresClient> {
        let socket = match &config.place {
            PostgresAddress::Directory(directory, port) => {
                Stream::unix(&directory.join(format!(".s.PGSQL.{port}")), config.patience)?
            }
            PostgresAddress::Host(host, port) => {
                let stream = Stream::Tcp(tcp(host, *port, config.patience)?);
                if encrypts { encrypted(stream, host, &config.tls)? } else { stream }
            }
        };
        let mut client = PostgresClient::new(socket);
        client.log_in(config)?;
        Ok(client)
    }

    /// What was negotiated of TLS, as a fact.
    pub fn tls(&self, config: &ConnectionParameters) -> String {
        tls::negotiated(&self.socket, config.tls.mode)
    }

    /// Makes all further connections as encrypted as this one, where the URL leaves it to the server.
    pub fn settle_tls(&self, config: &mut ConnectionParameters) {
        if config.tls.mode.is_optional() {
            let is_encrypted = matches!(self.socket, Stream::Tls(_));
            config.tls.mode = if is_encrypted { TlsMode::Require } else { TlsMode::Disable };
        }
    }
}

/// Asks for TLS before the login, and starts it if the server agrees.
fn encrypted(mut stream: Stream, host: &str, request: &TlsRequest) -> Result<Stream> {
    let mut asked = BytesMut::new();
    frontend::ssl_request(&mut asked);
    stream.write_all(&asked)?;
    // One byte: more would be unencrypted, and anybody's.
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    match (answer, stream) {
        ([b'S'], Stream::Tcp(stream)) => request.secure(stream, host).map_err(PostgresError::Tls),
        ([b'N'], stream) if request.mode.is_optional() => Ok(stream),
        ([b'N'], _) => Err(PostgresError::Tls(std::io::Error::other(format!(
            "`{host}` has no TLS (ssl = off), and the sslmode of the URL insists on it"
        )))),
        ([tag], _) => Err(PostgresError::unexpected_message(tag)),
    }
}

impl<S: Read + Write> PostgresClient<S> {
    fn new(socket: S) -> PostgresClient<S> {
        let (incoming, outgoing) = (Incoming::new(), BytesMut::new());
        PostgresClient { socket, incoming, outgoing, statements: 0, greeted_by: None, usable: true }
    }

    /// Prepares a statement under a unique name.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.statements += 1;
        let name = request::name(self.statements);
        let text = request::text(&name);
        let done = self.exchange(b"1t", None, &mut |_, _| {}, |request| {
            frontend::parse(text, sql, [], request.held)?;
            frontend::describe(b'S', text, request.held)?;
            frontend::sync(request.held);
            Ok(())
        })?;
        match (done.columns, done.commands) {
            (Some(columns), 0) => Ok(Statement { name, columns }),
            _ => Err(PostgresError::unexpected("an answer to a preparation that describes nothing")),
        }
    }

    /// Runs a prepared statement.
    pub fn query(
        &mut self,
        statement: Statement,
        params: &[StatementParameter],
        each: ValueSink,
    ) -> Result<RequestOutcome> {
        let done = self.exchange(b"2", Some(statement.columns), each, |request| {
            request.bind(&statement.name, params)?;
            request.execute()
        })?;
        done.of_one_command()
    }

    /// Prepares and runs a statement once.
    pub fn once(
        &mut self,
        sql: &str,
        params: &[StatementParameter],
        each: ValueSink,
    ) -> Result<RequestOutcome> {
        let done = self.exchange(b"12", None, each, |request| {
            frontend::parse("", sql, [], request.held)?;
            request.bind(request::UNNAMED, params)?;
            frontend::describe(b'P', "", request.held)?;
            request.execute()
        })?;
        done.of_one_command()
    }

    /// Runs statements as text; result values are text as well.
    pub fn simple(&mut self, sql: &str, each: ValueSink) -> Result<RequestOutcome> {
        let done = self.exchange(b"", None, each, |request| request.query(sql))?;
        if done.commands == 0 {
            return Err(PostgresError::unexpected("no answer to a statement"));
        }
        Ok(done)
    }

    /// Runs statements as text, for their effect.
    pub fn run(&mut self, sql: &str) -> Result<RequestOutcome> {
        self.simple(sql, &mut |_, _| {})
    }

    /// The first value of a query, as a number; `None` without a row.
    pub fn number(&mut self, sql: &str, params: &[StatementParameter]) -> Result<Option<i64>> {
        first_number(|each| self.once(sql, params, each))
    }

    /// The first column of a query, as text; NULLs are left out.
    pub fn texts(&mut self, sql: &str, params: &[StatementParameter]) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        self.once(sql, params, &mut |column, value| {
            if let (0, Some(bytes)) = (column, value) {
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            }
        })?;
        Ok(texts)
    }

    /// Sends what `write` assembles, and reads the reply. Each message type in `owed` must arrive once, in this order, before any
    /// row.
    fn exchange<'p>(
        &mut self,
        owed: &[u8],
        columns: Option<usize>,
        each: ValueSink,
        write: impl FnOnce(&mut RequestBuilder<'_, 'p, S>) -> std::io::Result<()>,
    ) -> Result<RequestOutcome> {
        if !self.usable {
            return Err(PostgresError::Lost);
        }
        // Set first, in case a receiver of values panics.
        self.usable = false;
        let mut request = RequestBuilder::new(&mut self.socket, &mut self.outgoing);
        match write(&mut request).and_then(|()| request.send()) {
            Ok(()) => self.answer(owed, columns, each),
            Err(error) => Err(self.last_words(error)),
        }
    }

    /// The server's last error before it closed the connection during sending, or else the error of sending.
    fn last_words(&mut self, error: std::io::Error) -> PostgresError {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidInput};
        // The message is too long or a name contains a zero byte; nothing was sent.
        self.usable = error.kind() == InvalidInput;
        if !matches!(error.kind(), BrokenPipe | ConnectionReset) {
            return error.into();
        }
        match self.answer(b"", None, &mut |_, _| {}) {
            Err(PostgresError::Server(server)) => PostgresError::Server(server),
            _ => error.into(),
        }
    }

    /// Reads a reply to its end.
    fn answer(&mut self, mut owed: &[u8], columns: Option<usize>, each: ValueSink) -> Result<RequestOutcome> {
        let mut done = RequestOutcome { columns, ..RequestOutcome::default() };
        let mut failed = None;
        // Rows of the current command.
        let mut rows = 0;
        loop {
            let header = match self.incoming.header(&mut self.socket) {
                Ok(header) => header,
                // A terminating server sends the reason before it closes the connection.
                Err(error) => return Err(failed.map_or(error.into(), PostgresError::Server)),
            };
            match header.tag {
                b'D' if owed.is_empty() => {
                    let columns =
                        done.columns.ok_or_else(|| PostgresError::unexpected("a row of no query"))?;
                    self.incoming.row(&mut self.socket, header, columns, each)?;
                    rows += 1;
                }
                b'C' if owed.is_empty() => {
                    done.end_command(self.incoming.body(&mut self.socket, header)?, rows)?;
                    rows = 0;
                }
                b'E' => {
                    let body = self.incoming.body(&mut self.socket, header)?;
                    // The first error is the one to report; the owed messages will not arrive.
                    failed.get_or_insert_with(|| Box::new(ServerError::parse(body)));
                    owed = b"";
                }
                b'T' | b'n' if owed.is_empty() => {
                    done.columns = Some(columns_of(header, self.incoming.body(&mut self.socket, header)?)?);
                }
                b'Z' if owed.is_empty() => {
                    self.incoming.skip(&mut self.socket, header)?;
                    self.usable = true;
                    return failed.map_or(Ok(done), |server| Err(PostgresError::Server(server)));
                }
                // The cancellation key, which begins with the server's process id.
                b'K' => {
                    let key = self.incoming.body(&mut self.socket, header)?;
                    self.greeted_by = key.first_chunk().map(|process| u32::from_be_bytes(*process));
                }
                // Notices, settings, and notifications.
                b'N' | b'S' | b'A' => self.incoming.skip(&mut self.socket, header)?,
                tag if owed.first() == Some(&tag) => {
                    self.incoming.skip(&mut self.socket, header)?;
                    owed = &owed[1..];
                }
                b'G' | b'H' | b'W' => return Err(PostgresError::unexpected("a COPY that nobody asked for")),
                tag => return Err(PostgresError::unexpected_message(tag)),
            }
        }
    }

    // ---- logging in ------------------------------------------------------------------------------------------

    fn log_in(&mut self, config: &ConnectionParameters) -> Result<()> {
        let login = [("user", config.user.as_str()), ("client_encoding", "UTF8")];
        let settings = config.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.tell(|held| frontend::startup_message(login.into_iter().chain(settings), held))?;
        self.authenticate(config)?;
        self.answer(b"", None, &mut |_, _| {}).map(drop)
    }

    /// Answers the server's authentication requests until it accepts.
    fn authenticate(&mut self, config: &ConnectionParameters) -> Result<()> {
        let mut scram: Option<sasl::ScramSha256> = None;
        loop {
            let header = self.incoming.header(&mut self.socket)?;
            if header.tag == b'N' {
                self.incoming.skip(&mut self.socket, header)?;
                continue;
            }
            if !matches!(header.tag, b'R' | b'E') {
                return Err(PostgresError::unexpected_message(header.tag));
            }
            let body = self.incoming.body(&mut self.socket, header)?.to_vec();
            if header.tag == b'E' {
                return Err(PostgresError::Server(Box::new(ServerError::parse(&body))));
            }
            let (asked, rest) = body
                .split_first_chunk()
                .ok_or_else(|| PostgresError::unexpected("a request for authentication without its kind"))?;
            match (i32::from_be_bytes(*asked), &mut scram) {
                (0, None) => return Ok(()),
                (3, None) => {
                    let password = config.password()?;
                    self.tell(|held| frontend::password_message(password, held))?;
                }
                (5, None) => {
                    let salt =
                        rest.try_into().map_err(|_wrong_length| PostgresError::unexpected("a salt"))?;
                    let hash = md5_hash(config.user.as_bytes(), config.password()?, salt);
                    self.tell(|held| frontend::password_message(hash.as_bytes(), held))?;
                }
                (10, None) if rest.split(|byte| *byte == 0).any(|name| name == SCRAM) => {
                    let exchange =
                        sasl::ScramSha256::new(config.password()?, sasl::ChannelBinding::unsupported());
                    let first = exchange.message();
                    self.tell(|held| frontend::sasl_initial_response(sasl::SCRAM_SHA_256, first, held))?;
                    scram = Some(exchange);
                }
                (11, Some(exchange)) => {
                    exchange.update(rest)?;
                    let next = exchange.message();
                    self.tell(|held| frontend::sasl_response(next, held))?;
                }
                // Only this message proves that the server knows the password.
                (12, Some(exchange)) => {
                    exchange.finish(rest)?;
                    scram = None;
                }
                (kind, _) => {
                    return Err(PostgresError::Unexpected(format!(
                        "a request for authentication of kind {kind}, which this client does not have, or not now"
                    )));
                }
            }
        }
    }

    /// Sends one message.
    fn tell(&mut self, write: impl FnOnce(&mut BytesMut) -> std::io::Result<()>) -> Result<()> {
        let mut request = RequestBuilder::new(&mut self.socket, &mut self.outgoing);
        write(request.held)?;
        Ok(request.send()?)
    }
}

const SCRAM: &[u8] = sasl::SCRAM_SHA_256.as_bytes();

impl<S: Read + Write> Drop for PostgresClient<S> {
    fn drop(&mut self) {
        // Without this message the server logs a complaint; nothing else depends on it.
        if self.usable {
            self.tell(|held| {
                frontend::terminate(held);
                Ok(())
            })
            .ok();
        }
    }
}

impl RequestOutcome {
    /// Checks a command's tag, such as `SELECT 1` or `INSERT 0 1`, against the received rows.
    fn end_command(&mut self, body: &[u8], rows: u64) -> Result<()> {
        let tag = body.strip_suffix(b"\0").and_then(|tag| std::str::from_utf8(tag).ok()).unwrap_or_default();
        let number: Option<u64> = tag.rsplit(' ').next().and_then(|word| word.parse().ok());
        // Commands such as SHOW have rows and no number.
        let fits = match number {
            Some(number) => number == rows || rows == 0 && !tag.starts_with("SELECT"),
            None => !tag.is_empty() && !tag.starts_with("SELECT"),
        };
        if !fits {
            return Err(PostgresError::Unexpected(format!("{rows} rows and then `{tag}`")));
        }
        self.rows += rows;
        self.count = number.unwrap_or(0);
        self.rolled_back = tag == "ROLLBACK";
        self.commands += 1;
        Ok(())
    }

    fn of_one_command(self) -> Result<RequestOutcome> {
        match self.commands {
            1 => Ok(self),
            commands => {
                Err(PostgresError::Unexpected(format!("answers to {commands} commands instead of 1")))
            }
        }
    }
}

/// The number of columns in a row description.
fn columns_of(header: MessageHeader, body: &[u8]) -> Result<usize> {
    match (header.tag, body.first_chunk()) {
        (b'n', _) => Ok(0),
        (_, Some(count)) => Ok(u16::from_be_bytes(*count).into()),
        (_, None) => Err(PostgresError::unexpected("a description of rows that is too short")),
    }
}

/// The first value of a query's result, as a number; `None` without a row.
pub fn first_number(query: impl FnOnce(ValueSink) -> Result<RequestOutcome>) -> Result<Option<i64>> {
    let mut first = None;
    query(&mut |_, value| {
        first.get_or_insert_with(|| value.and_then(whole_number));
    })?;
    match first {
        Some(None) => Err(PostgresError::unexpected("something else than a number")),
        found => Ok(found.flatten()),
    }
}

/// Decodes a boolean, `int4`, `int8` or `oid` in the binary format, distinguished by length.
fn whole_number(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [byte] => Some(byte.into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A scripted server: it sends prepared replies, at most `step` bytes at a time, and accepts as many.
    struct Script {
        answers: Vec<u8>,
        given: usize,
        step: usize,
        took: Vec<u8>,
        /// How the connection ends: closed, or with this error.
        end: Option<io::ErrorKind>,
        /// The error of writes, if they fail.
        refusal: Option<io::ErrorKind>,
    }

    impl Read for Script {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let bytes = room.len().min(self.step).min(self.answers.len() - self.given);
            if let (0, Some(kind)) = (bytes, self.end) {
                return Err(kind.into());
            }
            room[..bytes].copy_from_slice(&self.answers[self.given..self.given + bytes]);
            self.given += bytes;
            Ok(bytes)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(kind) = self.refusal {
                return Err(kind.into());
            }
            let taken = bytes.len().min(self.step);
            self.took.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
    }

    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            body.extend(value.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        message(b'D', &body)
    }

    fn error(code: &str) -> Vec<u8> {
        message(b'E', format!("SERROR\0VERROR\0C{code}\0Mno\0Dbecause\0\0").as_bytes())
    }

    fn ready() -> Vec<u8> {
        message(b'Z', b"I")
    }

    fn bound() -> Vec<u8> {
        message(b'2', b"")
    }

    fn complete(tag: &str) -> Vec<u8> {
        message(b'C', format!("{tag}\0").as_bytes())
    }

    fn speaking(step: usize, answers: &[Vec<u8>]) -> PostgresClient<Script> {
        let answers = answers.concat();
        PostgresClient::new(Script { answers, given: 0, step, took: Vec::new(), end: None, refusal: None })
    }

    const ONE_COLUMN: Statement = Statement { name: *b"s000001\0", columns: 1 };

    /// The received pieces of all values, with NULL as text.
    fn ask(
        client: &mut PostgresClient<Script>,
        statement: Statement,
    ) -> (Result<RequestOutcome>, Vec<Vec<u8>>) {
        let mut pieces = Vec::new();
        let done =
            client.query(statement, &[], &mut |_, value| pieces.push(value.unwrap_or(b"NULL").to_vec()));
        (done, pieces)
    }

    #[test]
    fn messages_may_be_split_anywhere() {
        let (small, large) = (vec![1; 100], (0..200_000u32).map(|n| n as u8).collect::<Vec<u8>>());
        let values: [Option<&[u8]>; 4] = [Some(&small), None, Some(&large), Some(b"")];
        let notice = message(b'N', &vec![b'x'; 100_000]);
        let setting = message(b'S', b"TimeZone\0UTC\0");
        let mut answers = vec![notice.clone(), bound(), setting];
        answers.extend(values.iter().map(|value| row(&[*value])));
        answers.extend([notice, complete("SELECT 4"), ready()]);
        for step in [1, 2, 3, 5, 7, 4095, 4097, 65_535, 65_536, 65_537, 1 << 20] {
            let mut client = speaking(step, &answers);
            let (done, pieces) = ask(&mut client, ONE_COLUMN);
            let done = done.unwrap();
            assert_eq!((done.rows, done.count, done.rolled_back), (4, 4, false), "{step}");
            assert_eq!(pieces.concat(), [&small[..], b"NULL", &large, b""].concat(), "{step}");
            assert_eq!((pieces[0].len(), pieces[1].len()), (100, 4), "small values come whole");
            assert_eq!(client.incoming.room_bytes(), 64 << 10, "a large value made the buffer grow");
            assert!(client.usable);
        }
    }

    #[test]
    fn an_error_after_rows_is_the_answer_and_the_connection_goes_on() {
        let again = [bound(), row(&[Some(b"again")]), complete("SELECT 1"), ready()].concat();
        let mut client = speaking(
            3,
            &[bound(), row(&[Some(b"one")]), error("40001"), message(b'N', b"\0"), ready(), again],
        );
        let (done, pieces) = ask(&mut client, ONE_COLUMN);
        let trouble = done.unwrap_err();
        assert_eq!((trouble.code(), pieces), (Some("40001"), vec![b"one".to_vec()]));
        assert_eq!(trouble.to_string(), "ERROR: no (because), SQLSTATE 40001");
        assert_eq!(ask(&mut client, ONE_COLUMN).1, [b"again"]);
    }

    #[test]
    fn a_refused_preparation_is_an_error_and_the_connection_goes_on() {
        let mut client = speaking(
            1000,
            &[
                error("42601"),
                ready(),
                message(b'1', b""),
                message(b't', b"\0\0"),
                message(b'n', b""),
                ready(),
            ],
        );
        assert_eq!(
            client.prepare("nonsense").err().and_then(|trouble| trouble.code().map(str::to_owned)).as_deref(),
            Some("42601")
        );
        assert_eq!(client.prepare("DELETE").unwrap().columns, 0);
    }

    #[test]
    fn a_server_that_says_why_it_ends_is_heard() {
        let mut client = speaking(1000, &[bound(), error("57P01")]);
        assert_eq!(ask(&mut client, ONE_COLUMN).0.unwrap_err().code(), Some("57P01"));
        assert!(matches!(ask(&mut client, ONE_COLUMN).0, Err(PostgresError::Lost)));
        // Also if it ended while the client was sending.
        let mut client = speaking(1000, &[error("08P01")]);
        client.socket.refusal = Some(io::ErrorKind::BrokenPipe);
        assert_eq!(ask(&mut client, ONE_COLUMN).0.unwrap_err().code(), Some("08P01"));
        let mut client = speaking(1000, &[]);
        client.socket.refusal = Some(io::ErrorKind::BrokenPipe);
        assert!(matches!(ask(&mut client, ONE_COLUMN).0, Err(PostgresError::Socket(_))));
    }

    #[test]
    fn a_connection_that_ends_in_a_message_is_lost() {
        let answers = [bound(), row(&[Some(&[7; 9000])]), complete("SELECT 1"), ready()].concat();
        for end in (0..answers.len()).step_by(61).chain([answers.len() - 1]) {
            let mut client = speaking(1000, &[answers[..end].to_vec()]);
            let (done, pieces) = ask(&mut client, ONE_COLUMN);
            assert!(
                matches!(done, Err(PostgresError::Socket(error)) if error.kind() == io::ErrorKind::UnexpectedEof),
                "{end}"
            );
            assert!(pieces.concat().len() <= 9000);
            assert!(matches!(ask(&mut client, ONE_COLUMN).0, Err(PostgresError::Lost)));
            let mut client = speaking(1000, &[answers[..end].to_vec()]);
            client.socket.end = Some(io::ErrorKind::WouldBlock);
            assert!(ask(&mut client, ONE_COLUMN).0.unwrap_err().is_timeout(), "{end}");
            assert!(matches!(ask(&mut client, ONE_COLUMN).0, Err(PostgresError::Lost)));
        }
    }

    #[test]
    fn answers_that_do_not_fit_are_errors() {
        let one = || row(&[Some(b"1")]);
        let too_short = [&2u32.to_be_bytes()[..], b"xx"].concat();
        let lengths: [&[u8]; 4] = [b"\0\x01\0\0\0\x09x", b"\0\x01\0\0\0\0x", b"\0\x01\0\0", b"\0"];
        let mut wrong = vec![
            vec![one(), complete("SELECT 1"), ready()],
            vec![bound(), ready()],
            vec![bound(), one(), ready()],
            vec![bound(), one(), complete("SELECT 2"), ready()],
            vec![bound(), complete("SELECT 1"), ready()],
            vec![bound(), complete("SELECT"), ready()],
            vec![bound(), one(), complete(""), ready()],
            vec![bound(), complete("DELETE 1"), complete("DELETE 1"), ready()],
            vec![bound(), bound(), one(), complete("SELECT 1"), ready()],
            vec![bound(), row(&[Some(b"1"), None]), complete("SELECT 1"), ready()],
            vec![bound(), message(b'G', b"\0\0\0")],
            vec![bound(), message(b'H', b"\0\0\0")],
            vec![bound(), message(b's', b"")],
            vec![bound(), message(b'?', b"")],
            vec![bound(), [b"D", &too_short[..]].concat()],
            vec![b"220 hello\r\n".to_vec()],
            vec![[b"E", &i32::MAX.to_be_bytes()[..]].concat()],
        ];
        wrong.extend(
            lengths.iter().map(|body| vec![bound(), message(b'D', body), complete("SELECT 1"), ready()]),
        );
        for (index, answers) in wrong.iter().enumerate() {
            let done = ask(&mut speaking(1000, answers), ONE_COLUMN).0;
            assert!(done.is_err(), "{index}: {done:?}");
        }
    }

    #[test]
    fn commands_say_what_they_changed() {
        for (tag, count) in [("INSERT 0 1", 1), ("DELETE 0", 0), ("UPDATE 12", 12), ("CREATE TABLE", 0)] {
            let mut client = speaking(1000, &[bound(), complete(tag), ready()]);
            assert_eq!(ask(&mut client, ONE_COLUMN).0.unwrap().count, count, "{tag}");
        }
        let mut client = speaking(1000, &[complete("BEGIN"), complete("ROLLBACK"), ready()]);
        assert!(client.run("BEGIN; COMMIT").unwrap().rolled_back);
    }

    #[test]
    fn numbers_have_the_length_of_their_type() {
        let values: [(&[u8], i64); 3] =
            [(&[1], 1), (&(-2i32).to_be_bytes(), -2), (&(1i64 << 40).to_be_bytes(), 1 << 40)];
        let described = || [message(b'1', b""), bound(), message(b'T', b"\0\x01")].concat();
        for (bytes, number) in values {
            let mut client =
                speaking(1000, &[described(), row(&[Some(bytes)]), complete("SELECT 1"), ready()]);
            assert_eq!(client.number("SELECT", &[]).unwrap(), Some(number));
        }
        let mut client = speaking(1000, &[described(), complete("SELECT 0"), ready()]);
        assert_eq!(client.number("SELECT", &[]).unwrap(), None);
        for wrong in [None, Some(&b"123"[..])] {
            let mut client = speaking(1000, &[described(), row(&[wrong]), complete("SELECT 1"), ready()]);
            assert!(client.number("SELECT", &[]).is_err());
        }
    }

    /// A request arrives completely, however many bytes the socket accepts at a time.
    #[test]
    fn requests_are_sent_whole() {
        let (small, large) = (vec![b's'; 10], vec![b'l'; 300_000]);
        let members: Vec<&[u8]> = std::iter::repeat_n([&small[..], &large[..5000]], 400).flatten().collect();
        let params = [
            StatementParameter::Bytes(&large),
            StatementParameter::Int(-1),
            StatementParameter::Array(BYTEA, &members),
            StatementParameter::Bigint(5),
        ];
        let value = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        let mut array = [1, 0, BYTEA, 800, 1].map(u32::to_be_bytes).concat();
        array.extend(members.iter().flat_map(|member| value(member)));
        let mut body = b"\0s000001\0\0\x01\0\x01\0\x04".to_vec();
        body.extend([value(&large), value(&[255; 4]), value(&array), value(&5u64.to_be_bytes())].concat());
        body.extend(b"\0\x01\0\x01");
        let meant = [message(b'B', &body), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat();
        for step in [1000, 70_001, 1 << 30] {
            let mut client = speaking(step, &[bound(), complete("INSERT 0 1"), ready()]);
            client.query(ONE_COLUMN, &params, &mut |_, _| {}).unwrap();
            assert!(client.socket.took == meant, "{step}");
            assert!(client.outgoing.capacity() < 1 << 20, "the pieces were copied all at once");
        }
        let none = StatementParameter::Array(TEXT, &[]);
        let mut client = speaking(1000, &[bound(), complete("DELETE 0"), ready()]);
        client.query(ONE_COLUMN, &[none], &mut |_, _| {}).unwrap();
        let array = value(&[0, 0, TEXT].map(u32::to_be_bytes).concat());
        let body = [b"\0s000001\0\0\x01\0\x01\0\x01", &array[..], b"\0\x01\0\x01"].concat();
        assert!(client.socket.took.starts_with(&message(b'B', &body)));
    }

    #[test]
    fn what_cannot_be_sent_leaves_the_connection_as_it_was() {
        let mut client = speaking(1000, &[bound(), complete("DELETE 0"), ready()]);
        assert!(client.prepare("a\0b").is_err());
        assert!(client.query(ONE_COLUMN, &vec![StatementParameter::Int(0); 70_000], &mut |_, _| {}).is_err());
        assert!(client.socket.took.is_empty());
        assert!(ask(&mut client, ONE_COLUMN).0.is_ok());
    }

    fn log_in(answers: &[Vec<u8>], password: &str) -> Result<Vec<u8>> {
        let config = ConnectionParameters::parse(
            &format!("postgres://me{password}@host/"),
            std::time::Duration::from_secs(1),
        );
        let mut client = speaking(4, answers);
        client.log_in(&config.unwrap())?;
        Ok(std::mem::take(&mut client.socket.took))
    }

    fn asked(kind: u32, rest: &[u8]) -> Vec<u8> {
        message(b'R', &[&kind.to_be_bytes()[..], rest].concat())
    }

    #[test]
    fn passwords_are_given_in_the_way_the_server_asks_for() {
        let welcome = || [asked(0, b""), message(b'S', b"a\0b\0"), message(b'K', &[0; 8]), ready()].concat();
        let start = message(0, b"\0\x03\0\0user\0me\0client_encoding\0UTF8\0database\0me\0\0")[1..].to_vec();
        assert_eq!(log_in(&[welcome()], "").unwrap(), start);
        let plain = log_in(&[message(b'N', b"\0"), asked(3, b""), welcome()], ":secret").unwrap();
        assert_eq!(plain, [&start[..], &message(b'p', b"secret\0")].concat());
        let hashed = log_in(&[asked(5, &[1, 2, 3, 4]), welcome()], ":secret").unwrap();
        let hash = md5_hash(b"me", b"secret", [1, 2, 3, 4]) + "\0";
        assert_eq!(hashed, [&start[..], &message(b'p', hash.as_bytes())].concat());
        assert!(matches!(log_in(&[asked(3, b"")], ""), Err(PostgresError::NoPassword)));
        let refused = log_in(&[asked(3, b""), error("28P01")], ":wrong");
        assert_eq!(refused.unwrap_err().code(), Some("28P01"));
    }

    #[test]
    fn a_server_that_does_not_show_that_it_knows_the_password_is_refused() {
        let scram = || asked(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        for answers in [
            vec![scram(), asked(0, b""), ready()],
            vec![scram(), asked(3, b"")],
            vec![scram(), asked(11, b"r=another,s=QSXCR+Q6sek8bf92,i=4096")],
            vec![scram(), asked(12, b"v=nonsense")],
            vec![asked(12, b"v=nonsense")],
            vec![asked(10, b"SCRAM-SHA-256-PLUS\0\0")],
            vec![asked(7, b"")],
            vec![message(b'R', b"\0")],
            vec![b"220 hello\r\n".to_vec()],
        ] {
            assert!(log_in(&answers, ":secret").is_err());
        }
    }
}
