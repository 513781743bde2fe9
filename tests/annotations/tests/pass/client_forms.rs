use crate::{AppError, locked, memory};
use axum::extract::State;
use redlock_core::{Redlock, redlock};
use std::{
    rc::Rc,
    sync::{Arc, LazyLock, Mutex},
};

static LOCKS: LazyLock<Redlock> = LazyLock::new(memory);

#[redlock(resource = "static", client = LOCKS)]
async fn lazy() -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", client = locks)]
async fn owned(locks: Redlock) -> Result<Redlock, AppError> {
    Ok(locks)
}

#[redlock(resource = "a", client = *locks)]
async fn dereferenced(locks: &Redlock) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", client = locks)]
async fn borrowed(locks: &&Redlock) -> Result<String, AppError> {
    Ok(locked())
}

#[redlock(resource = "a", client = locks)]
async fn counted(locks: Arc<Redlock>) -> Result<Arc<Redlock>, AppError> {
    Ok(locks)
}

#[redlock(resource = "a", client = locks)]
async fn extracted(locks: State<Redlock>) -> Result<String, AppError> {
    Ok(locked())
}

pub(crate) struct App {
    locks: Redlock,
    shared: Arc<Redlock>,
    guarded: Mutex<Redlock>,
}

impl App {
    fn locks(&self) -> Redlock {
        self.locks.clone()
    }

    fn get(&self) -> &Redlock {
        &self.locks
    }

    #[redlock(resource = "a", client = self.locks)]
    async fn field(&self) -> Result<String, AppError> {
        Ok(locked())
    }

    #[redlock(resource = "a", client = &self.locks)]
    async fn reference(&self) -> Result<String, AppError> {
        Ok(locked())
    }

    #[redlock(resource = "a", client = self.shared)]
    async fn counted_field(&self) -> Result<String, AppError> {
        Ok(locked())
    }

    #[redlock(resource = "a", client = self.locks())]
    async fn method(&self) -> Result<String, AppError> {
        Ok(locked())
    }

    #[redlock(resource = "a", client = self.get())]
    async fn getter(&mut self) -> Result<String, AppError> {
        Ok(locked())
    }

    /// The guard of the mutex is gone before the first await: the future stays `Send`.
    #[redlock(resource = "a", client = self.guarded.lock().unwrap())]
    async fn behind_a_mutex(&self) -> Result<String, AppError> {
        Ok(locked())
    }
}

fn send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn whatever_gives_a_client_is_borrowed() {
    let locks = owned(memory()).await.unwrap();
    assert_eq!(dereferenced(&locks).await.unwrap(), "a");
    assert_eq!(borrowed(&&locks).await.unwrap(), "a");
    let counted_client = counted(Arc::new(locks.clone())).await.unwrap();
    assert_eq!(extracted(State(locks.clone())).await.unwrap(), "a");
    assert_eq!(lazy().await.unwrap(), "static");
    let mut app = App { locks: locks.clone(), shared: counted_client, guarded: Mutex::new(locks) };
    assert_eq!(app.field().await.unwrap(), "a");
    assert_eq!(app.reference().await.unwrap(), "a");
    assert_eq!(app.counted_field().await.unwrap(), "a");
    assert_eq!(app.method().await.unwrap(), "a");
    assert_eq!(app.getter().await.unwrap(), "a");
    assert_eq!(send(app.behind_a_mutex()).await.unwrap(), "a");
}

#[tokio::test]
async fn a_client_that_is_not_send_is_no_hindrance() {
    #[redlock(resource = "a", client = locks)]
    async fn local(locks: Rc<Redlock>) -> Result<String, AppError> {
        Ok(locked())
    }
    assert_eq!(local(Rc::new(memory())).await.unwrap(), "a");
}
