package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Submit has the members of a [JobRequest] that a leader reads. Arguments and contents of files stay in the payload.
type Submit struct {
	JobID    GUID
	ClientID string
	ExecName string
	Options
	Files        int    // how many
	ContentBytes int64  // of all contents of files in the payload, decoded
	Blobs        []Blob // of the files that are blobs

	idStart, idEnd int // where the payload has the value of JobId
}

var submitFields = []string{
	"JobId", "ClientId", "ExecName", "Args", "Files", "TimeoutMs", "MaxAttempts", "Priority", "NotAfter", "RetryOn", "OnDisconnect", "Env", "Array", "Index",
	"ArrayId", "Trace", "Attempt", "Checkpoint",
}

// ReadSubmit reads the payload of a SubmitJob. It makes the checks of [CheckRequest], and refuses members that only a leader may set, and a payload that
// would not fit into the frame of an AssignJob; that error wraps [ErrTooLarge]. The Submit does not refer to the payload.
func ReadSubmit(payload []byte) (Submit, error) {
	s := &submitScan{}
	if err := scan(payload, submitFields, s.member); err != nil {
		return Submit{}, err
	}
	if err := checkNames(s.JobID, s.ClientID, s.ExecName); err != nil {
		return Submit{}, err
	}
	if err := s.names.checkExec(s.ExecName); err != nil {
		return Submit{}, err
	}
	if err := s.check(); err != nil {
		return Submit{}, err
	}
	if s.Index != nil || s.ArrayID != nil {
		return Submit{}, fmt.Errorf("members Index and ArrayId are set by the leader; give the indexes as Array")
	}
	if s.attempt != 0 || s.checkpoint != nil {
		return Submit{}, fmt.Errorf("members Attempt and Checkpoint are set by the leader; give what the job goes on from in Files")
	}
	if most := MaxSubmit(s.ExecName); len(payload) > most {
		return Submit{}, fmt.Errorf("%w: a request of %d bytes, at most %d; give large files as blobs", ErrTooLarge, len(payload), most)
	}
	return s.Submit, nil
}

// ReadSubmitJob reads a SubmitJob from a client, and checks that the frame has the ids and the exec of the payload.
func ReadSubmitJob(f *Frame, client string) (Submit, error) {
	s, err := ReadSubmit(f.Payload)
	if err != nil {
		return Submit{}, err
	}
	exec, ok := ExecOf(f.Subject)
	switch {
	case s.JobID != f.MsgID:
		err = fmt.Errorf("JobId is %s, and MsgId %s", s.JobID, f.MsgID)
	case s.ClientID != client:
		err = fmt.Errorf("ClientId is %s, and the hello of this connection has %s", s.ClientID, client)
	case !ok || exec != s.ExecName:
		err = fmt.Errorf("ExecName is %s, and the subject %.80q", s.ExecName, f.Subject)
	}
	if err != nil {
		return Submit{}, err
	}
	return s, nil
}

// submitScan is a Submit that is being read.
type submitScan struct {
	Submit
	args       argLimit
	names      fileNames
	attempt    int64
	checkpoint *Blob
}

func (s *submitScan) member(in *scanner, field int) (err error) {
	name := submitFields[field]
	switch name {
	case "JobId":
		err = in.guidInto(name, &s.JobID)
		s.idEnd = int(in.dec.InputOffset())
		s.idStart = s.idEnd - in.size
	case "ClientId":
		err = in.textInto(name, &s.ClientID)
	case "ExecName":
		err = in.textInto(name, &s.ExecName)
	case "Args":
		err = in.each(name, func() error {
			arg, err := in.text(name)
			if err != nil {
				return err
			}
			return s.args.add(len(arg), bytes.IndexByte(arg, 0) >= 0)
		})
	case "Files":
		s.names = fileNames{}
		err = in.each(name, func() error { return s.file(in) })
	default:
		err = s.option(in, name)
	}
	return err
}

func (s *submitScan) option(in *scanner, name string) (err error) {
	var n int64
	switch name {
	case "TimeoutMs":
		s.TimeoutMs, err = in.number(name)
	case "MaxAttempts":
		n, err = in.number(name)
		s.MaxAttempts = int(n)
	case "Priority":
		n, err = in.number(name)
		s.Priority = int(n)
	case "NotAfter":
		s.NotAfter, err = in.time(name)
	case "RetryOn":
		err = in.each(name, func() error {
			word, err := in.text(name)
			if err != nil {
				return err
			}
			s.RetryOn = append(s.RetryOn, string(word))
			return checkRetryOn(s.RetryOn)
		})
	case "OnDisconnect":
		err = in.textInto(name, &s.OnDisconnect)
	case "Env":
		s.Env, err = in.env(name)
	case "Array":
		err = in.textInto(name, &s.Array)
	case "Index":
		if in.null() {
			return nil
		}
		n, err = in.number(name)
		s.Index = &n
	case "ArrayId":
		if in.null() {
			return nil
		}
		s.ArrayID = new(GUID)
		err = in.guidInto(name, s.ArrayID)
	case "Trace":
		err = in.textInto(name, &s.Trace)
	case "Attempt":
		s.attempt, err = in.number(name)
	case "Checkpoint":
		err = in.blob(&s.checkpoint)
	}
	return err
}

var fileFields = []string{"Name", "CacheId", "Content", "Blob"}

func (s *submitScan) file(in *scanner) error {
	if s.Files++; s.Files > MaxFiles {
		return checkFileCount(s.Files)
	}
	var f InputFile
	err := in.object("Files", fileFields, func(field int) error {
		switch fileFields[field] {
		case "Name":
			return in.textInto("Name", &f.Name)
		case "CacheId":
			if in.null() {
				return nil
			}
			f.CacheID = new(string)
			return in.textInto("CacheId", f.CacheID)
		case "Content":
			size, given, err := in.base64("Content")
			if given {
				f.Content = []byte{} // as much of it as the check needs
				s.ContentBytes += int64(size)
			}
			return err
		default:
			return in.blob(&f.Blob)
		}
	})
	switch {
	case err != nil && f.Name == "": // it may come later
		return fmt.Errorf("file %d: %w", s.Files, err)
	case err != nil:
		return fmt.Errorf("file %.80q: %w", f.Name, err)
	}
	if f.Blob != nil {
		s.Blobs = append(s.Blobs, *f.Blob)
	}
	return f.check(s.names)
}

var blobFields = []string{"Name", "Sha256", "Size", "Ref"}

func (s *scanner) blob(to **Blob) error {
	if s.null() {
		return nil
	}
	b := &Blob{}
	*to = b
	return s.object("Blob", blobFields, func(field int) (err error) {
		switch name := blobFields[field]; name {
		case "Name":
			err = s.textInto(name, &b.Name)
		case "Sha256":
			err = s.textInto(name, &b.SHA256)
		case "Size":
			b.Size, err = s.number(name)
		case "Ref":
			err = s.textInto(name, &b.Ref)
		}
		return err
	})
}

func (s *scanner) time(what string) (*time.Time, error) {
	if s.null() {
		return nil, nil
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return nil, badJSON(err)
	}
	t := &time.Time{}
	if err := t.UnmarshalJSON(raw); err != nil {
		return nil, errKind(what, "a time such as 2026-01-02T15:04:05Z", raw)
	}
	return t, nil
}

func (s *scanner) env(what string) (map[string]string, error) {
	if open, err := s.open('{', what); !open {
		return nil, err
	}
	env := map[string]string{}
	for size := 0; s.dec.PeekKind() != '}'; {
		raw, err := s.text(what)
		if err != nil {
			return nil, err
		}
		name := string(raw)
		value, err := s.text(what)
		if err != nil {
			return nil, err
		}
		env[name] = string(value)
		if err := checkVariable(name, env[name], &size); err != nil {
			return nil, err
		}
	}
	return env, s.close()
}

// Members that a leader adds to the request of an array's element.
const (
	arrayMember = `,"ArrayId":"`
	indexMember = `,"Index":`
)

// ElementPayload returns the payload of AssignJob for an element of an array; payload is the array's, which s was read from. The JobId is the
// element's, and ArrayId and Index are added.
func (s *Submit) ElementPayload(payload []byte, element GUID, index int64) []byte {
	last := bytes.LastIndexByte(payload, '}')
	to := make([]byte, 0, len(payload)+elementRoom)
	to = append(to, payload[:s.idStart]...)
	to = appendGUID(append(to, '"'), element)
	to = append(to, '"')
	to = append(to, payload[s.idEnd:last]...)
	to = appendGUID(append(to, arrayMember...), s.JobID)
	to = append(append(to, '"'), indexMember...)
	to = strconv.AppendInt(to, index, 10)
	return append(to, payload[last:]...)
}
