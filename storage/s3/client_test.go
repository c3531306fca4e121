package s3_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

func TestF47S3AddressOfAServer(t *testing.T) {
	for _, tt := range []struct {
		name, endpoint, host string
		secure               bool
		want                 string // what is wrong
	}{
		{"AWS", "", "s3.amazonaws.com", true, ""},
		{"a host is asked over TLS", "s3.example.org", "s3.example.org", true, ""},
		{"a host with a port too", "minio:9000", "minio:9000", true, ""},
		{"a URL says how", "http://localhost:9000", "localhost:9000", false, ""},
		{"a slash ends it", "https://s3.example.org/", "s3.example.org", true, ""},
		{"an address", "http://[::1]:9000", "[::1]:9000", false, ""},
		{"a path", "https://s3.example.org/bucket", "", false, "S3_BUCKET_NAME"},
		{"a query", "https://s3.example.org?x=y", "", false, "without a path"},
		{"credentials", "https://key:secret@s3.example.org", "", false, "AWS_ACCESS_KEY_ID"},
		{"another scheme", "s3://bucket", "", false, "http or https"},
		{"no host", "http://", "", false, "give a host"},
		{"a port alone", ":9000", "", false, "give a host"},
		{"no URL", "http://a b", "", false, "give a host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, secure, err := s3.ParseEndpoint(tt.endpoint)
			switch {
			case tt.want == "" && (err != nil || host != tt.host || secure != tt.secure):
				t.Errorf("got %q, %v, %v", host, secure, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret")):
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// nowhere makes the usual places empty.
func nowhere(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{
		"HOME": dir, "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"), "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/none",
	} {
		t.Setenv(name, value)
	}
}

func TestF47S3CredentialsAreFoundInTheUsualPlaces(t *testing.T) {
	gateway := s3test.Gateway(t, "fleet")
	check := func(t *testing.T) {
		t.Helper()
		client, err := (&s3.Server{Endpoint: gateway, Region: s3test.Region}).Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s3.New(client, "fleet").Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Run("a file", func(t *testing.T) {
		nowhere(t)
		file := filepath.Join(t.TempDir(), "credentials")
		text := "[default]\naws_access_key_id = x\naws_secret_access_key = x\n[fleet]\naws_access_key_id = " + s3test.AccessKey + "\naws_secret_access_key = " + s3test.SecretKey + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
		t.Setenv("AWS_PROFILE", "fleet")
		check(t)
	})
	t.Run("a service of the machine", func(t *testing.T) {
		nowhere(t)
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"AccessKeyId":"` + s3test.AccessKey + `","SecretAccessKey":"` + s3test.SecretKey + `","Token":"","Expiration":"2099-01-01T00:00:00Z"}`))
		}))
		t.Cleanup(service.Close)
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.URL)
		check(t)
	})
}

func TestF47S3NoCredentials(t *testing.T) {
	nowhere(t)
	if _, err := (&s3.Server{}).Client(t.Context()); !errors.Is(err, s3.ErrNoCredentials) {
		t.Errorf("got %v, want s3.ErrNoCredentials", err)
	}
}

func TestF47S3CertificateOfOnesOwn(t *testing.T) {
	to, err := url.Parse(s3test.New(t, "fleet"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	reach := s3test.Server(server.URL)
	strange, err := reach.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s3.New(strange, "fleet").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "S3_CA_FILE") {
		t.Errorf("Check = %v, want it to name S3_CA_FILE", err)
	}
	reach.CAFile = file
	known, err := reach.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"content", large} {
		storagetest.PutString(t, s3.New(known, "fleet"), "object", content)
		if got := storagetest.GetString(t, s3.New(known, "fleet"), "object"); got != content {
			t.Errorf("got %d bytes", len(got))
		}
	}
	for _, bad := range []string{filepath.Join(dir, "none"), "s3_test.go"} {
		reach.CAFile = bad
		if _, err := reach.Client(t.Context()); !errors.Is(err, s3.ErrCAFile) {
			t.Errorf("%s is taken for certificates", bad)
		}
	}
	plain := s3test.Server(strings.Replace(to.String(), "http://", "", 1))
	client, err := plain.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s3.New(client, "fleet").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "begin S3_ENDPOINT with http://") {
		t.Errorf("Check = %v, want it to say how to ask without TLS", err)
	}
}
