//! The list of all stories, topic by topic.

/// Makes one test of every story, for the store that `$open` opens.
#[macro_export]
macro_rules! stories {
    ($open:path) => {
        $crate::stories! { @list $open;
            steps {
                completed_steps_are_not_run_again,
                a_failing_step_is_tried_as_often_as_it_may,
            }
        }
    };
    (@list $open:path; $($topic:ident { $($story:ident,)* })*) => {
        $(mod $topic {
            $(#[tokio::test]
            async fn $story() {
                let Some(lab) = $open().await else { return };
                $crate::story::$topic::$story(&lab).await;
            })*
        })*
    };
}
