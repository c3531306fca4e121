package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const downloadSize = 1 << 30

// relayDownload measures the download of an artifact beside nginx that serves the same file, with one client.
func relayDownload(ctx context.Context, r *report, s relaySetup) error {
	t := benchTask(1)
	path, err := s.putFile(t, downloadSize, strings.Repeat("0", 64)) // not looked at: the task has ended
	if err != nil {
		return err
	}
	if err := s.put(t); err != nil {
		return err
	}
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	nginx, root, err := startNginx(ctx, s.dir, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer nginx.kill()
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 64 << 10}}
	ours, theirs := p.address()+"/v1/tasks/"+string(t.ID)+"/artifacts/"+filepath.Base(path), root+filepath.Base(path)
	for _, url := range []string{ours, theirs} {
		if err := checkRange(ctx, client, url); err != nil {
			return err
		}
	}
	times, cpus := map[string][]float64{}, map[string][]float64{}
	for range 7 {
		for server, url := range map[*process]string{p: ours, nginx: theirs} {
			began := time.Now()
			used, err := server.cpuDuring(func() error {
				resp, err := askRelay(ctx, client, http.MethodGet, url, nil)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				return drop(resp.Body)
			})
			if err != nil {
				return err
			}
			times[url], cpus[url] = append(times[url], time.Since(began).Seconds()), append(cpus[url], used.Seconds())
		}
	}
	var ratios []float64
	for i, took := range times[ours] {
		ratios = append(ratios, times[theirs][i]/took)
	}
	memory, err := p.memory("VmHWM")
	r.add("download of 1 GiB, median of 7", downloadSize/median(times[ours])/1e6, "MB/s", bar{})
	r.add("… against nginx", median(ratios), "ratio", atLeast(0.8))
	r.add("… the least of 7", quantile(ratios, 0), "ratio", bar{})
	r.add("… processor time of the relay", median(cpus[ours]), "s", bar{})
	r.add("… of nginx", median(cpus[theirs]), "s", bar{})
	r.add("… memory of the relay, at most", memory/1e6, "MB", bar{})
	return err
}

// checkRange reads the end of a file.
func checkRange(ctx context.Context, client *http.Client, url string) error {
	resp, err := askRelay(ctx, client, http.MethodGet, url, nil, "Range", fmt.Sprintf("bytes=%d-", downloadSize-1000))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	want := fmt.Sprintf("bytes %d-%d/%d", downloadSize-1000, downloadSize-1, downloadSize)
	if got := resp.Header.Get("Content-Range"); resp.StatusCode != http.StatusPartialContent || got != want || len(text) != 1000 {
		return errors.Join(fmt.Errorf("GET the end of %s: %s with Content-Range %q and %d bytes", url, resp.Status, got, len(text)), err)
	}
	return err
}

// startNginx serves a directory, with one process and sendfile, and returns its address.
func startNginx(ctx context.Context, dir, files string) (*process, string, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, "", err
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/nginx.pid; error_log %[1]s/nginx.log;
events {}
http {
  access_log off; sendfile on; tcp_nopush on; default_type application/octet-stream;
  client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
  server { listen 127.0.0.1:%[2]s; root %[3]s; }
}
`, dir, port, files)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary = "/usr/sbin/nginx" // where Debian has it, which is not in the path of all
	}
	p, err := spawn(exec.CommandContext(ctx, binary, "-c", conf, "-e", filepath.Join(dir, "nginx.log")), 0)
	if err != nil {
		return nil, "", fmt.Errorf("nginx, of Debian's package nginx-light: %w", err)
	}
	root := "http://127.0.0.1:" + port + "/"
	for range 500 {
		resp, err := askRelay(ctx, http.DefaultClient, http.MethodGet, root, nil)
		if err == nil {
			return p, root, resp.Body.Close()
		}
		pause(10 * time.Millisecond)
	}
	p.kill()
	return nil, "", errors.New("nginx does not answer")
}
