package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
)

// A callback that answers nothing holds up neither tasks nor slots, cancel, the answers of the relay and its end.
func TestR62DeadCallbackDelaysNothing(t *testing.T) {
	hold := make(chan struct{})
	hook := newServer(t, func(_ http.ResponseWriter, r *http.Request) { <-hold })
	defer close(hold)
	r := setup(t, t.TempDir())
	r.Callbacks = local(hook)
	r.open()
	r.run(makes(oneFile))
	var ids []jobs.ID
	for range 3 * parallelCallbacks / 2 {
		ids = append(ids, r.queued(hook.URL))
	}
	for _, id := range ids {
		r.untilState(id, Succeeded)
	}
	if resp := r.call(http.MethodGet, "/v1/status", ""); resp.Status != http.StatusOK || r.overview().Callbacks.Pending < len(ids) {
		t.Errorf("%+v", resp)
	}
	waiting := r.create(`{"job_id":"j","kind":"render","callback_url":"` + hook.URL + `"}`)
	_, _ = r.status.Cancel(waiting) // it may have ended
	r.until(waiting, "ended", func(t *Task) bool { return t.State.Terminal() })
	r.stop()
}

func TestR63AnswersOfACallback(t *testing.T) {
	elsewhere := newParty(t, nil)
	for code, attempts := range map[int]int{
		200: 1, 202: 1, 204: 1, 299: 1, 410: 1,
		301: 2, 302: 2, 304: 2, 307: 2, 308: 2, 400: 2, 401: 2, 403: 2, 404: 2, 409: 2, 429: 2, 500: 2, 503: 2,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			hook := newParty(t, func(n int, w http.ResponseWriter, _ sent) {
				if n == 1 {
					w.Header().Set("Location", elsewhere.URL)
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "what-the-answer-says") // some have no body
				}
			})
			r := calls(t, hook, elsewhere).open().soon().deliver()
			id := r.queued(hook.URL)
			task := r.until(id, "told", func(t *Task) bool { return len(t.Events) == 0 })
			if n := len(hook.all()); n != attempts || task.Callback.Off != (code == 410) || task.Callback.Dead != 0 {
				t.Errorf("%d attempts, %+v", n, task.Callback)
			}
			if _, err := r.status.Cancel(id); err != nil {
				t.Fatal(err)
			}
			r.until(id, "told", func(t *Task) bool { return len(t.Events) == 0 })
			if n := len(hook.all()) - attempts; (n == 0) != (code == 410) {
				t.Errorf("%d events after that", n)
			}
			if text := jsonOf(t, r.onDisk(id)) + r.log.String() + r.call(http.MethodGet, "/v1/tasks/"+string(id), "").Body; strings.Contains(text, "what-the-answer-says") {
				t.Errorf("the answer was kept: %s", text)
			}
		})
	}
	if got := elsewhere.all(); len(got) > 0 {
		t.Errorf("a redirect was followed: %+v", got)
	}
}

func TestR63EventIsGivenUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusInternalServerError, 0)
		r := inBubble(t, s).deliver()
		id := r.queued("https://hooks.test/hook")
		time.Sleep(72 * time.Hour)
		pauses, took := s.pauses(), time.Duration(0)
		for _, pause := range pauses {
			took += pause
		}
		if s.count() != maxAttempts || took < 10*time.Hour || took > 36*time.Hour || pauses[0] < 2*time.Second || pauses[0] > 8*time.Second || pauses[10] < 6*time.Hour {
			t.Fatalf("%d attempts in %s: %v", s.count(), took, pauses)
		}
		if o := r.overview(); o.Callbacks.Dead != 1 || o.Callbacks.Pending != 0 {
			t.Errorf("status %+v", o.Callbacks)
		}
		// The next one is tried all the same.
		if _, err := r.status.Cancel(id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.count() != maxAttempts+1 {
			t.Errorf("%d attempts", s.count())
		}
		r.stop()
	})
}

// Each start of the relay makes an attempt. It does not give an event up because of that.
func TestR63ManyStartsUseUpNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusInternalServerError, 0)
		r := inBubble(t, s).deliver()
		id := r.queued("https://hooks.test/hook")
		for range 2 * maxAttempts {
			synctest.Wait()
			r.stop()
			r = inBubbleAt(t, filepath.Dir(r.Dir), s).deliver()
		}
		synctest.Wait()
		if task := r.task(id); len(task.Events) != 1 || task.Events[0].Attempts <= maxAttempts || task.Callback.Dead != 0 {
			t.Errorf("%+v %+v", task.Events, task.Callback)
		}
		r.stop()
	})
}

func TestR62DeletedTaskIsToldNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusInternalServerError, 0)
		r := inBubble(t, s).deliver()
		id := r.queued("https://hooks.test/hook")
		if _, err := r.status.Cancel(id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.tasks.drop(r.tasks.find(id)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Hour)
		if s.count() != 1 {
			t.Errorf("%d attempts", s.count())
		}
		r.stop()
	})
}

func TestR63CallbackSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusServiceUnavailable, 5*time.Minute)
		r := inBubble(t, s).deliver()
		r.queued("https://hooks.test/hook")
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if got := s.pauses(); len(got) != 2 || got[0] != 5*time.Minute || got[1] != 5*time.Minute || s.last.Timeout != 15*time.Second {
			t.Errorf("pauses %v, timeout %s", got, s.last.Timeout)
		}
		r.stop()
	})
}

func TestR64OnlyWhatWasAskedForIsTold(t *testing.T) {
	hook := newParty(t, nil)
	r := calls(t, hook).open().soon()
	id := r.create(`{"job_id":"j","kind":"music","callback_url":"` + hook.URL + `"}`) // queued waits, until it is no longer wanted
	resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/callback", `{"callback_url":"`+hook.URL+`","events":["succeeded","running"]}`)
	if want := fmt.Sprintf(`{"task_id":%q,"callback_url":%q,"events":["succeeded","running"]}`, id, hook.URL); resp.Status != 200 || strings.TrimSpace(resp.Body) != want {
		t.Errorf("%+v", resp)
	}
	r.deliver()
	r.made(r.claim(id), oneFile)
	r.untilTold(id)
	if d := cmp.Diff([]string{"running 2", "succeeded 4"}, told(t, hook.all())); d != "" {
		t.Error(d)
	}
}

// Progress is told once a second at most, not while another event waits, and once, whatever the answer is.
func TestR64ProgressIsDroppedWhenBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 10 * time.Second
		var told []string
		s := &script{}
		s.do = func(_ int, q *egress.Request) (egress.Response, error) {
			time.Sleep(slow)
			body, _ := q.Body() // of memory
			var event eventBody
			if err := json.NewDecoder(body).Decode(&event); err != nil {
				t.Error(err)
			}
			if slices.Contains(told, event.ID) {
				t.Errorf("%s is told again", event.ID)
			}
			told = append(told, event.ID)
			if event.Event == eventProgress {
				return egress.Response{Status: http.StatusInternalServerError}, nil
			}
			return egress.Response{Status: http.StatusOK}, nil
		}
		r := inBubble(t, s).deliver()
		id := r.queued("")
		if err := r.callbacks.register(id, Callback{URL: "https://hooks.test/", Events: []string{eventProgress, "canceled"}}); err != nil {
			t.Fatal(err)
		}
		c := r.claim(id)
		for done := range 300 { // 30 seconds: three calls
			time.Sleep(100 * time.Millisecond)
			if err := r.status.Report(t.Context(), c, time.Hour, &jobs.Progress{Done: done, Total: 1000}, jobs.Lines{}); err != nil {
				t.Fatal(err)
			}
			if n := len(r.task(id).Events); n > 1 {
				t.Fatalf("%d events wait", n)
			}
		}
		time.Sleep(slow)
		synctest.Wait()
		if len(told) < 2 || len(told) > 4 {
			t.Errorf("told %v", told)
		}
		r.stop()

		// Who answers at once is told once a second.
		quick := answering(http.StatusOK, 0)
		r = inBubble(t, quick).deliver()
		id = r.queued("")
		if err := r.callbacks.register(id, Callback{URL: "https://hooks.test/", Events: []string{eventProgress}}); err != nil {
			t.Fatal(err)
		}
		c = r.claim(id)
		for done := range 300 {
			time.Sleep(100 * time.Millisecond)
			if err := r.status.Report(t.Context(), c, time.Hour, &jobs.Progress{Done: done, Total: 1000}, jobs.Lines{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, pause := range quick.pauses() {
			if pause < 500*time.Millisecond {
				t.Errorf("told again after %s", pause)
			}
		}
		if n := quick.count(); n < 20 {
			t.Errorf("told %d times in 30 seconds", n)
		}
		r.stop()
	})
}

func TestR13RegistrationReplacesTheFormer(t *testing.T) {
	old, next := newParty(t, answers(slices.Repeat([]int{500}, 1000)...)), newParty(t, nil)
	r := calls(t, old, next).open().deliver()
	id := r.queued(old.URL)
	r.until(id, "tried", func(t *Task) bool { return len(t.Events) == 1 && t.Events[0].Attempts > 0 })
	// Its next attempt is some seconds away; the new callback does not wait for it.
	if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/callback", `{"callback_url":"`+next.URL+`"}`); resp.Status != http.StatusOK {
		t.Errorf("%+v", resp)
	}
	r.until(id, "told", func(t *Task) bool { return len(t.Events) == 0 })
	before := len(old.all())
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	r.untilTold(id)
	if d := cmp.Diff([]string{"queued 1", "canceled 2"}, told(t, next.all())); d != "" {
		t.Error(d)
	}
	if len(old.all()) != before {
		t.Errorf("the former got %d events more", len(old.all())-before)
	}
	if resp := r.call(http.MethodPost, "/v1/tasks/"+string(newID(time.Now()))+"/callback", `{"callback_url":"`+next.URL+`"}`); resp.Status != http.StatusNotFound {
		t.Errorf("an unknown task: %+v", resp)
	}
}

// What the former callback answers does not count for the new one.
func TestR13AnswerOfTheFormerDoesNotCount(t *testing.T) {
	asked, hold := make(chan struct{}), make(chan struct{})
	old := newParty(t, func(n int, w http.ResponseWriter, _ sent) {
		close(asked)
		<-hold
		w.WriteHeader(http.StatusGone)
	})
	next := newParty(t, nil)
	r := calls(t, old, next).open().soon().deliver()
	id := r.queued(old.URL)
	<-asked
	if err := r.callbacks.register(id, Callback{URL: next.URL, Events: allEvents}); err != nil {
		t.Fatal(err)
	}
	r.until(id, "told", func(t *Task) bool { return len(t.Events) == 0 })
	close(hold)
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	task := r.untilTold(id)
	r.stop()
	if d := cmp.Diff([]string{"queued 1", "canceled 2"}, told(t, next.all())); d != "" || task.Callback.Off {
		t.Errorf("%+v %s", task.Callback, d)
	}
}

func TestR14EndedTaskTellsOfItsEndOnce(t *testing.T) {
	hook := newParty(t, nil)
	r := calls(t, hook).open().soon().deliver()
	id := r.queued("")
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	register := func(events string) {
		t.Helper()
		if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/callback", `{"callback_url":"`+hook.URL+`","events":`+events+`}`); resp.Status != http.StatusOK {
			t.Errorf("%+v", resp)
		}
		r.untilTold(id)
	}
	register(`["succeeded","failed","running","progress"]`)
	if n := len(hook.all()); n != 0 {
		t.Errorf("%d events that were not asked for", n)
	}
	register(`["canceled","queued"]`)
	if d := cmp.Diff([]string{"canceled 2"}, told(t, hook.all())); d != "" {
		t.Error(d)
	}
}
