//! A loopback proxy in front of PostgreSQL that is slow, cuts, or loses answers when it is told to.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::postgres::PgConnectOptions;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// What becomes of the next COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lose {
    /// It never reaches the server; both sides see the connection end.
    Request,
    /// The server has answered, and the connection ends before the client hears it.
    Reply,
    /// The server has answered, and the client hears nothing at all: the connection stays open.
    ReplySilently,
}

#[derive(Debug, Default)]
struct Controls {
    latency_ms: AtomicU64,
    next_commit: Mutex<Option<Lose>>,
    commits_lost: AtomicU64,
    requests: AtomicU64,
    /// Replies are swallowed on connections that were opened before this was set.
    deaf: Mutex<Arc<AtomicBool>>,
    cut: Mutex<CancellationToken>,
}

/// Stops accepting when it is dropped, and cuts what is open.
#[derive(Debug)]
pub struct Proxy {
    at: SocketAddr,
    controls: Arc<Controls>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of the server that these options lead to.
    pub async fn to(server: &PgConnectOptions) -> Self {
        let target = (server.get_host().to_owned(), server.get_port());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        let controls = Arc::new(Controls::default());
        let shared = Arc::clone(&controls);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&target).await.expect("the server answers");
                join(client, server, &shared);
            }
        });
        Self { at, controls, accepting }
    }

    /// The same database, by way of the proxy.
    pub fn through(&self, options: PgConnectOptions) -> PgConnectOptions {
        options.host(&self.at.ip().to_string()).port(self.at.port())
    }

    /// Every chunk takes this long, each way.
    pub fn latency(&self, latency: Duration) {
        self.controls.latency_ms.store(u64::try_from(latency.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// The next COMMIT on any connection meets this.
    pub fn lose_next_commit(&self, how: Lose) {
        *lock(&self.controls.next_commit) = Some(how);
    }

    /// How many met it so far.
    pub fn commits_lost(&self) -> u64 {
        self.controls.commits_lost.load(Ordering::SeqCst)
    }

    /// How many times clients have sent something: of a client that waits for each answer, its round trips.
    pub fn requests(&self) -> u64 {
        self.controls.requests.load(Ordering::SeqCst)
    }

    /// From now on, no reply comes through on connections that are open. New ones are sound.
    pub fn swallow_replies(&self) {
        let deaf = std::mem::take(&mut *lock(&self.controls.deaf));
        deaf.store(true, Ordering::SeqCst);
    }

    /// Ends every connection, on both sides. New ones are sound.
    pub fn cut(&self) {
        std::mem::take(&mut *lock(&self.controls.cut)).cancel();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection: what is known of it on both ways.
#[derive(Clone)]
struct Link {
    controls: Arc<Controls>,
    deaf: Arc<AtomicBool>,
    end: CancellationToken,
    /// What the COMMIT that is under way meets.
    losing: Arc<Mutex<Option<Lose>>>,
}

fn join(client: TcpStream, server: TcpStream, controls: &Arc<Controls>) {
    for side in [&client, &server] {
        side.set_nodelay(true).expect("a socket");
    }
    let (deaf, end) = (Arc::clone(&lock(&controls.deaf)), lock(&controls.cut).child_token());
    let link = Link { controls: Arc::clone(controls), deaf, end, losing: Arc::default() };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::spawn(pump(link.clone(), from_client, to_server, Link::request));
    tokio::spawn(pump(link, from_server, to_client, Link::reply));
}

enum Chunk {
    Pass,
    Swallow,
    End,
}

impl Link {
    fn request(&self, bytes: &[u8]) -> Chunk {
        self.controls.requests.fetch_add(1, Ordering::SeqCst);
        if !bytes.windows(7).any(|part| part == b"COMMIT\0" || part == b"COMMIT;") {
            return Chunk::Pass;
        }
        let Some(how) = lock(&self.controls.next_commit).take() else { return Chunk::Pass };
        self.controls.commits_lost.fetch_add(1, Ordering::SeqCst);
        if how == Lose::Request {
            return Chunk::End;
        }
        *lock(&self.losing) = Some(how);
        Chunk::Pass
    }

    fn reply(&self, _bytes: &[u8]) -> Chunk {
        if self.deaf.load(Ordering::SeqCst) {
            return Chunk::Swallow;
        }
        match *lock(&self.losing) {
            Some(Lose::Reply | Lose::Request) => Chunk::End,
            Some(Lose::ReplySilently) => Chunk::Swallow,
            None => Chunk::Pass,
        }
    }
}

async fn pump(link: Link, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, judge: fn(&Link, &[u8]) -> Chunk) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            () = link.end.cancelled() => 0,
        };
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        let latency = link.controls.latency_ms.load(Ordering::SeqCst);
        if latency > 0 {
            sleep(Duration::from_millis(latency)).await;
        }
        match judge(&link, bytes) {
            Chunk::Pass if to.write_all(bytes).await.is_err() => break,
            Chunk::Pass | Chunk::Swallow => {}
            Chunk::End => break,
        }
    }
    // One way ended: so does the other, or its peer would wait for ever.
    link.end.cancel();
}
