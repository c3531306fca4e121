package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// maxFiles is how many files one form may bring.
const maxFiles = 100

// submit makes a job from the form. What was typed stays if it fails.
func (d *Dashboard) submit(v *visit) error {
	values, err := v.receive()
	if err != nil {
		return err
	}
	n, err := v.newJob(values.Get("scope"), values.Get("kind"), "")
	if err != nil {
		return err
	}
	n.take(values)
	request, ok := n.request()
	if n.WrongIn = values.Get("upload failed"); n.WrongIn != "" {
		ok = false
	}
	if ok {
		var job jobapi.Job
		err := v.post(pathOf(n.Scope, "jobs"), request, &job, jobapi.HeaderIdempotencyKey, n.Key)
		if err == nil {
			http.Redirect(v.w, v.r, toPage(toJob(n.Scope, job.ID), "submitted"), http.StatusSeeOther)
			return nil
		}
		if _, refused := refusalOf(err); !refused || statusOf(err) == http.StatusUnauthorized {
			return err
		}
		n.refused(err)
	}
	return d.write(v, n.page(v))
}

// take puts what was sent into the form.
func (n *newJob) take(values url.Values) {
	n.Kind, n.Inputs, n.Raw = values.Get("kind"), values.Get("inputs"), values.Get("params")
	if key := values.Get("key"); key != "" && len(key) <= 64 {
		n.Key = key
	}
	for i := range n.Params {
		n.Params[i].set(values.Get("p." + n.Params[i].Name))
	}
}

// refused notes an error beside its field. A submission that was changed is another one, so it needs another key.
func (n *newJob) refused(err error) {
	message, at := refusedField(err)
	switch name, isParam := strings.CutPrefix(at, "params."); {
	case at == "input", at == "inputs", strings.HasPrefix(at, "inputs"):
		n.WrongIn = message
	case isParam && n.Known:
		for i := range n.Params {
			if n.Params[i].Name == name {
				n.Params[i].Wrong = message
				return
			}
		}
		n.Wrong = message
	case !n.Known && strings.HasPrefix(at, "params"):
		n.WrongRaw = message
	default:
		n.Wrong = message
	}
}

// receive reads the form. A file in it is passed on to the Job API as it comes, and is kept nowhere here: the name by which the storage has it
// becomes one of the inputs. The fields that say where it belongs come before it.
func (v *visit) receive() (url.Values, error) {
	if !strings.HasPrefix(v.r.Header.Get("Content-Type"), "multipart/form-data") {
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
		err := v.r.ParseForm()
		return v.r.PostForm, asBadRequest(err)
	}
	reader, err := v.r.MultipartReader()
	if err != nil {
		return nil, asBadRequest(err)
	}
	values := url.Values{}
	room, files := int64(maxForm), 0
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, asBadRequest(err)
		}
		if part.FormName() == "file" {
			if part.FileName() == "" || values.Has("upload failed") {
				continue
			}
			if files++; files > maxFiles {
				values.Set("upload failed", fmt.Sprintf("More than %d files: upload them one after the other", maxFiles))
				continue
			}
			if err := v.pass(part, values); err != nil {
				return nil, err
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, room+1))
		if room -= int64(len(text)); room < 0 {
			err = &http.MaxBytesError{Limit: maxForm}
		}
		if err != nil {
			return nil, asBadRequest(err)
		}
		values.Add(part.FormName(), string(text))
	}
}

func asBadRequest(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); err == nil || large {
		return err
	}
	return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
}

// pass uploads a file of the form.
func (v *visit) pass(part *multipart.Part, values url.Values) error {
	name := jobs.Clip(path.Base(strings.ReplaceAll(part.FileName(), `\`, "/")), 128, "")
	r := v.request(v.r.Context(), http.MethodPost, pathOf(values.Get("scope"), "inputs"), url.Values{"name": {name}}, nil)
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Body, r.ContentLength = io.NopCloser(part), -1
	var stored struct{ Input string }
	a, err := v.call(r, uploadPatience, v.w)
	if err == nil && a.status >= 300 {
		err = a.refusal(r)
	}
	if err == nil {
		err = json.Unmarshal(a.body.Bytes(), &stored)
	}
	if refused, ok := refusalOf(err); ok && refused.Status != http.StatusUnauthorized {
		values.Set("upload failed", jobs.Clip(name, 60, "…")+": "+refused.Message)
		return nil
	}
	if err != nil {
		return err
	}
	values.Set("inputs", strings.TrimSpace(values.Get("inputs")+"\n"+stored.Input))
	return nil
}

// uploadPatience is for one file.
const uploadPatience = time.Hour
