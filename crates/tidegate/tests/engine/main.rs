//! The promises kept end to end: stories told to the real engine, on every store.
//!
//! A story is one function of a [`Lab`](tidegate::testing::Lab) and one line in the list below, which makes a test of it
//! for each store. The lines of the promise that a story keeps are named in its doc comment. Time
//! is moved, not waited for.

mod steps;
mod stores;
mod words;

macro_rules! stories {
    ($($topic:ident { $($story:ident,)* })*) => {
        stories! { @on memory $($topic { $($story,)* })* }
        stories! { @on sqlite $($topic { $($story,)* })* }
        stories! { @on postgres $($topic { $($story,)* })* }
    };
    (@on $store:ident $($topic:ident { $($story:ident,)* })*) => {
        mod $store {
            $(mod $topic {
                $(#[tokio::test]
                async fn $story() {
                    let Some(lab) = crate::stores::$store().await else { return };
                    crate::$topic::$story(&lab).await;
                })*
            })*
        }
    };
}

stories! {
    steps {
        completed_steps_are_not_run_again,
        a_failing_step_is_tried_as_often_as_it_may,
    }
}
