package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Server says where a store is and who asks.
type Server struct {
	Endpoint string // host, host:port or URL; AWS when empty
	Region   string // asked of the store when empty
	// PathStyle says whether the bucket is in the path of a request ("true") or in the
	// name of the host ("false"); otherwise it is as the store is known to want it.
	PathStyle string
	CAFile    string // certificates in PEM that are trusted besides the system's; empty for none

	// AccessKey and SecretKey, with the Token of a session, are who asks. When they are
	// empty the usual places are searched: the file of AWS's programs, and the service
	// that gives credentials to containers and machines.
	AccessKey, SecretKey, Token string
}

// The errors of [Server.Client]: nothing says who asks, or the file of certificates cannot be
// used.
var (
	ErrNoCredentials = errors.New("there are no credentials for S3")
	ErrCAFile        = errors.New("no certificates")
)

// aws is the endpoint that the library knows as that of all regions.
const aws = "s3.amazonaws.com"

// Client returns a client. It asks for credentials where there are none, and makes no
// other call.
func (s *Server) Client(ctx context.Context) (*minio.Client, error) {
	host, secure, err := ParseEndpoint(s.Endpoint)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	if err := s.trust(transport); err != nil {
		return nil, err
	}
	creds, err := s.credentials(ctx, transport)
	if err != nil {
		return nil, err
	}
	lookup := map[string]minio.BucketLookupType{"true": minio.BucketLookupPath, "false": minio.BucketLookupDNS}[s.PathStyle]
	return minio.New(host, &minio.Options{Creds: creds, Secure: secure, Transport: lending{transport}, Region: s.Region, BucketLookup: lookup})
}

// ParseEndpoint returns the host, perhaps with a port, and whether it is asked over TLS.
func ParseEndpoint(endpoint string) (host string, secure bool, err error) {
	if endpoint == "" {
		return aws, true, nil
	}
	text := endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Hostname() == "":
		return "", false, errors.New("give a host, host:port or an URL")
	case u.User != nil:
		return "", false, errors.New("give the credentials as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in the address")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", false, fmt.Errorf("its scheme is %.20q: give http or https", u.Scheme)
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return "", false, errors.New("give the address of the store alone, without a path; the bucket is S3_BUCKET_NAME")
	}
	return u.Host, u.Scheme == "https", nil
}

// trust adds the certificates of the file.
func (s *Server) trust(transport *http.Transport) error {
	if s.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.CAFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCAFile, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%w: %s holds none in PEM", ErrCAFile, s.CAFile)
	}
	if transport.TLSClientConfig != nil { // with http:// there is nobody to trust
		transport.TLSClientConfig.RootCAs = pool
	}
	return nil
}

// credentials returns who asks. What is found in a file or asked of a service is looked up
// again before it ends.
func (s *Server) credentials(ctx context.Context, transport http.RoundTripper) (*credentials.Credentials, error) {
	if s.AccessKey != "" {
		return credentials.NewStaticV4(s.AccessKey, s.SecretKey, s.Token), nil
	}
	with := &credentials.CredContext{Context: ctx, Client: &http.Client{Transport: transport, Timeout: 5 * time.Second}}
	file := credentials.New(&credentials.FileAWSCredentials{})
	if v, err := file.GetWithContext(with); err == nil && v.AccessKeyID != "" {
		return file, nil
	}
	// Not with the transport of the store: the address is one of this machine's network,
	// no proxy leads there.
	local := http.DefaultTransport.(*http.Transport).Clone()
	local.Proxy = nil
	machine := credentials.New(&credentials.IAM{Region: s.Region, Client: &http.Client{Transport: local, Timeout: 5 * time.Second}})
	if v, err := machine.GetWithContext(with); err != nil || v.AccessKeyID == "" {
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, errors.Join(err, context.Cause(ctx)))
	}
	return machine, nil
}
