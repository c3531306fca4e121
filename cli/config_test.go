package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestF63MisspeltVariablesAreNamed(t *testing.T) {
	tests := []struct {
		name, environ string
		want          []string // what is meant
	}{
		{"two letters are wrong", "REDIS_HOTS=x JOB_TIMEOUTS=1", []string{"REDIS_HOST", "JOB_TIMEOUT"}},
		{"the last word is missing", "PUBSUB_EMULATOR=x GCP_PROJECT=p WORKER_TOKEN=t GCS_BUCKET=b", []string{"PUBSUB_EMULATOR_HOST", "GCP_PROJECT_ID", "WORKER_TOKEN_FILE", "GCS_BUCKET_NAME"}},
		{"the last word is missing, but ours is set, too", "GCP_PROJECT=p GCP_PROJECT_ID=p", nil},
		{"ours is set to nothing", "GCP_PROJECT=p GCP_PROJECT_ID=", []string{"GCP_PROJECT_ID"}},
		{"letters are swapped in the first word", "REDSI_HOST=x ERDIS_URL=y REDIS_URL=z", []string{"REDIS_HOST", "REDIS_URL"}},
		{"a letter more or less in the first word", "PUBSUBS_TOPIC=t WOKER_SLOTS=2 BATCHFLET_API=x", []string{"PUBSUB_TOPIC", "WORKER_SLOTS", "BATCHFLEET_API"}},
		{"a name of one word", "PROCESSORR=pdf PROCESOSR=pdf", []string{"PROCESSOR", "PROCESSOR"}},
		{"nothing is misspelt", "REDIS_HOST=x GCP_PROJECT_ID=p PROCESSOR=mock", nil},
		{
			"variables of others", "PUBSUB_VERBOSITY=1 PUBSUB_PROJECT_ID=p GOOGLE_CLOUD_PROJECT=p GCP_REGION=r GCP_ZONE=z CLOUDSDK_CORE_PROJECT=p GCLOUD_PROJECT=p " +
				"REDIS_SERVICE_HOST=x REDIS_PORT_6379_TCP=y REDIS_PORT_6379_TCP_ADDR=y KUBERNETES_PORT=z KUBERNETES_SERVICE_HOST=x SOURCES=s RESOURCE=r SOURCE_DATE_EPOCH=1 " +
				"PROCESSOR_ARCHITECTURE=AMD64 PROCESSOR_LEVEL=6 NUMBER_OF_PROCESSORS=8 HTTPS_ADDR=x HTTP_PROXY=p NO_PROXY=n LOG_FORMAT=json JOB_NAME=j JOB_URL=u JOBS_TIMEOUT=3 " +
				"CLOUD_RUN_TASK_INDEX=0 TRAIN_TIMEOUT=3 WORK=w DEAD=d PDF=p MAX_JOBS=3 GCP=p PUBSUB=x TMPDIR=t HOME=h PATH=p USER=u LANG=C LC_ALL=C TERM=xterm GOOGLE_API_KEY=k " +
				"AWS_REGION=r AWS_DEFAULT_REGION=r AWS_EXECUTION_ENV=x AWS_CONFIG_FILE=f AWS_WEB_IDENTITY_TOKEN_FILE=f AWS_ROLE_ARN=a AWS_ROLE_SESSION_NAME=s AWS_CA_BUNDLE=f AWS_ENDPOINT_URL_S3=u", nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			notes := misspelt(strings.Fields(tt.environ))
			var got []string
			for _, note := range notes {
				_, meant, _ := strings.Cut(note, "do you mean ")
				got = append(got, strings.TrimSuffix(meant, "?"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q\nmean %q, want %q", notes, got, tt.want)
			}
		})
	}
}
