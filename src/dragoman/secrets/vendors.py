"""Token shapes of vendors, one row each, with their checksums."""

from __future__ import annotations

import zlib
from typing import Final

# --------------------------------------------------------------------------------------------------------------------
# Sets of words, written as they are read.


def word_set(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(text.split())


# --------------------------------------------------------------------------------------------------------------------
# Checksums that vendors put into their tokens, so that a look-alike can be told from the real thing.

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIZE: Final = 6


def base62(number: int, width: int = _SIZE) -> str:
    """A number in base 62, digits before capitals before small letters, filled up with zeros."""
    digits = []
    while number:
        number, rest = divmod(number, 62)
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits)).rjust(width, "0")


def has_crc32(body: str) -> bool:
    """Whether the last six characters are the CRC-32 of those before them: GitHub and npm tokens."""
    if len(body) <= _SIZE or not body.isascii():
        return False
    return base62(zlib.crc32(body[:-_SIZE].encode("ascii"))) == body[-_SIZE:]


# --------------------------------------------------------------------------------------------------------------------
# The shapes of vendors' tokens, one row each, and of families of tokens that many vendors share.
#
# A row is: the kind to report, the prefixes, what follows them (`<alphabet least>` or `<alphabet least+>`, else a
# regular expression), and what that has to be like: `some` (not a placeholder), `random` (no words), `mixed` (random,
# letters of both cases and digits) or `crc32` (ends in its checksum, or is `some`). To add a vendor, add a row and
# its tests.

Row = tuple[str, str, str, str]

_MODELS: Final[tuple[Row, ...]] = (
    ("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-None- sk-service-", "<word 20+>", "random"),
    ("anthropic_key", "sk-ant-", "<word 20+>", "random"),
    ("openrouter_key", "sk-or-v1- sk-or-", "<word 20+>", "random"),
    ("dragoman_key", "sk-dragoman-", "<word 40+>", "random"),
    ("langfuse_key", "sk-lf- pk-lf-", "<uuid 36>", "some"),
    ("helicone_key", "sk-helicone- pk-helicone-", "<word 20+>", "random"),
    ("api_key", "sk-", "<alnum 20+>", "random"),
    ("api_key", "sk-", "<word 24+>", "mixed"),
    ("elevenlabs_key", "sk_", "<hex 48>", "random"),
    ("google_key", "AIza", "<word 30+>", "some"),
    ("google_key", "AQ.Ab", "<word 30+>", "random"),
    ("groq_key", "gsk_", "<alnum 32+>", "random"),
    ("xai_key", "xai-", "<alnum 40+>", "random"),
    ("perplexity_key", "pplx-", "<alnum 32+>", "random"),
    ("huggingface_token", "hf_ api_org_", "<alnum 24+>", "random"),
    ("replicate_token", "r8_", "<alnum 30+>", "random"),
    ("fireworks_key", "fw_ fpk_", "<alnum 20+>", "random"),
    ("together_key", "tgp_v1_", "<word 20+>", "random"),
    ("cerebras_key", "csk-", "<alnum 32+>", "random"),
    ("nvidia_key", "nvapi-", "<word 32+>", "random"),
    ("tavily_key", "tvly-", "(?:(?:dev|prod)-)?<word 20+>", "random"),
    ("pinecone_key", "pcsk_ pclocal_", "<word 30+>", "random"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_ ls__", "<word 30+>", "random"),
    ("voyage_key", "pa-", "<word 40+>", "mixed"),
    ("jina_key", "jina_", "<alnum 32+>", "random"),
    ("firecrawl_key", "fc-", "<hex 32>", "random"),
    ("brave_key", "BSA", "<word 27+>", "mixed"),
    ("wandb_key", "wandb_v1_", "<word 20+>", "random"),
    ("anyscale_key", "esecret_", "<alnum 20+>", "random"),
    ("modal_token", "ak- as-", "<alnum 22>(?![A-Za-z0-9])", "mixed"),
    ("e2b_key", "e2b_", "<hex 40>", "random"),
    ("daytona_key", "dtn_", "<hex 64>", "random"),
    ("apify_token", "apify_api_", "<alnum 30+>", "random"),
    ("bedrock_key", "ABSK bedrock-api-key-", "<base64 40+>", "random"),
    ("api_key", "ak_", "<alnum 20+>", "mixed"),
    ("api_key", "sk_", "<alnum 30+>", "mixed"),
    ("letta_key", "sk-let-", "<base64 40+>", "random"),
    ("cartesia_key", "sk_car_", "<word 20+>", "mixed"),
    ("llamacloud_key", "llx-", "<alnum 40+>", "random"),
    ("cursor_key", "crsr_ key_", "<hex 64>", "random"),
    ("runpod_key", "rpa_", "<upper 30+>(?:<alnum 4+>)?", "random"),
    ("chutes_key", "cpk_", "<hex 32>\\.<hex 32>\\.<alnum 30+>", "some"),
    ("friendli_token", "flp_", "<alnum 40+>", "random"),
)

# How ` PRIVATE`, ` RSA PRIVATE` and so on begin after the first line of a key in base64.
_PEM_IN_BASE64: Final = (
    "BQUklWQVRF",
    "BSU0EgUFJJVkFUR",
    "BFQyBQUklWQVRF",
    "BPUEVOU1NIIFBSSVZBVE",
    "BFTkNSWVBURUQgUFJJVkFUR",
    "BEU0EgUFJJVkFUR",
    "BQR1AgUFJJVkFUR",
)

_CLOUDS: Final[tuple[Row, ...]] = (
    (
        "aws_access_key",
        "AKIA ASIA ABIA ACCA A3T",
        "<upper 16>(?:[,: \t]<aws 40>(?![A-Za-z0-9+/=])|(?![A-Za-z0-9]))",
        "some",
    ),
    ("aws_access_key", "A3T", "<upper 17>(?![A-Za-z0-9])", "some"),
    ("alibaba_key", "LTAI", "<alnum 12+>", "random"),
    ("baidu_key", "ALTAK-", "<alnum 20+>(?:/<hex 40>)?", "random"),
    ("tencent_key", "AKID", "<alnum 32+>", "random"),
    ("volcengine_key", "AKLT AKTP", "<alnum 30+>", "random"),
    ("yandex_key", "AQVN", "<word 35+>", "random"),
    ("yandex_token", "t1.", "<word 40+>(?:\\.<word 40+>)?", "random"),
    ("yandex_secret", "YC", "<word 38>(?![A-Za-z0-9_-])", "mixed"),
    ("yandex_token", "y0_", "<word 50+>", "random"),
    ("gcp_token", "ya29.", "<word 20+>(?:\\.<word 10+>)*", "some"),
    ("google_client_secret", "GOCSPX-", "<word 20+>", "some"),
    ("gcp_hmac_key", "GOOG1E GOOG", "<upper 20+>", "random"),
    ("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", "<hex 40+>", "some"),
    ("digitalocean_key", "DO00", "<upper 16>(?![A-Za-z0-9])", "random"),
    ("supabase_key", "sbp_ sb_secret_ sbp_v0_ sb_temp_", "<word 20+>", "random"),
    (
        "doppler_token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. dp.said.",
        "(?:[a-z0-9_-]{2,35}\\.)?<alnum 30+>",
        "some",
    ),
    ("vault_token", "hvs. hvb. hvr.", "<word 20+>", "some"),
    ("vault_token", "s. b. r.", "<alnum 24>(?![A-Za-z0-9.])", "mixed"),
    ("age_key", "AGE-SECRET-KEY-1 AGE-PLUGIN-", "<upper 30+>", "some"),
    ("heroku_key", "HRKU-", "<word 30+>", "some"),
    ("fly_token", "fm2_ fm1r_ fm1a_ fo1_", "<base64 20+>", "some"),
    ("databricks_token", "dapi dose dkea", "<hex 32>(?:-\\d)?", "random"),
    ("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", "<dotted 30+>", "some"),
    ("neon_key", "napi_", "<alnum 40+>", "random"),
    ("aiven_password", "AVNS_", "<word 15+>", "some"),
    ("scaleway_key", "SCW", "<upper 17>(?![A-Za-z0-9])", "random"),
    ("tailscale_key", "tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook- tskey-", "<word 16+>", "random"),
    ("cloudflare_key", "cfut_ cfat_ cfk_", "<alnum 30+>", "random"),
    ("cloudflare_origin_key", "v1.0-", "<hex 24>-<hex 100+>", "some"),
    ("render_key", "rnd_", "<alnum 20+>", "random"),
    ("vercel_token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", "<word 24+>", "random"),
    ("netlify_token", "nfp_ nfc_ nfo_ nfu_ nfb_", "<alnum 30+>", "random"),
    ("confluent_secret", "cflt", "<base64 40+>", "random"),
    ("cockroach_key", "CCDB1_", "<alnum 22>_<alnum 40>", "some"),
    ("netbird_key", "nbp_", "<alnum 36>", "random"),
    ("dbt_token", "dbtc_ dbts_ dbtu_", "<word 40+>", "random"),
    ("clickhouse_key", "4b1d", "<alnum 38>(?![A-Za-z0-9])", "mixed"),
    ("dynatrace_token", "dt0c01. dt0s16. dt0s01. dt0s08. dt0s02.", "<upper 24>\\.<upper 50+>", "some"),
    ("openshift_token", "sha256~", "<word 30+>", "random"),
    ("infracost_key", "ico-", "<alnum 32>", "mixed"),
    ("defined_key", "dnkey-", "<base32 26>-<base32 52>", "some"),
    ("ngrok_key", "ngrok_ ak_", "<alnum 27+>(?:_<alnum 10+>)?", "mixed"),
    ("one_password_key", "A3-", "<upper 6>-(?:<upper 11>|<upper 6>-<upper 5>)-<upper 5>-<upper 5>-<upper 5>", "some"),
    ("one_password_token", "ops_eyJ", "<base64 80+>", "some"),
    ("bitwarden_token", "0.", "<uuid 36>\\.<alnum 20+>:<base64 20+>", "some"),
    ("docker_config", "eyJhdXRocyI6 ewogICJhdXRocyI6 ewoJImF1dGhzIj", "<base64 40+>", "some"),
    (
        "connection_string",
        "cG9zdGdyZXM6Ly cG9zdGdyZXNxbDovL bXlzcWw6Ly bW9uZ29kYjovL bW9uZ29kYitzcnY6Ly cmVkaXM6Ly YW1xcDovL",
        "<base64 20+>",
        "some",
    ),
    ("base64_private_key", "LS0tLS1CRUdJTi", f"(?:{'|'.join(_PEM_IN_BASE64)})<base64 40+>", "some"),
)

_CODE_HOSTS: Final[tuple[Row, ...]] = (
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", "<alnum 30+>", "crc32"),
    ("github_token", "ghs_", "<dotted 60+>", "random"),
    ("github_token", "github_pat_", "<word 36+>", "some"),
    ("github_app_key", "v1.", "<hex 40>(?![A-Za-z0-9])", "random"),
    (
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glimt- glagent- gloas- glsoat- glffct- glrtr- glwt-",
        "<dotted 20+>",
        "some",
    ),
    ("gitlab_token", "GR1348941", "<word 20+>", "some"),
    ("bitbucket_token", "ATBB BBDC-", "<word 24+>", "random"),
    ("atlassian_token", "ATATT3 ATCTT3 ATATT ATCTT", "<percent 60+>", "some"),
    ("npm_token", "npm_", "<alnum 36+>", "crc32"),
    ("pypi_token", "pypi-AgE pypi-", "<word 50+>", "random"),
    ("docker_token", "dckr_pat_ dckr_oat_ dckr_jt_", "<word 20+>", "some"),
    ("rubygems_key", "rubygems_", "<hex 40+>", "some"),
    ("crates_token", "cio", "<alnum 32>(?![A-Za-z0-9])", "mixed"),
    ("nuget_key", "oy2", "<lower 43>(?![A-Za-z0-9])", "random"),
    ("clojars_token", "CLOJARS_", "<alnum 50+>", "some"),
    ("sonar_token", "sqp_ squ_ sqa_", "<hex 40>", "some"),
    ("jfrog_token", "AKCp cmVmdGtu cmVmd", "<alnum 40+>", "random"),
    ("buildkite_token", "bkua_ bkaa_ bkct_ bkpi_ bkpt_ bkps_", "<alnum 32+>", "random"),
    ("circleci_token", "CCIPAT_ CCIPRJ_ CCIRUN_", "<word 30+>", "some"),
    ("sourcegraph_token", "sgp_ slk_ sgd_ sgph_ sgs_", "(?:(?:local|<hex 16>)_)?<hex 40>", "some"),
    ("deno_token", "ddp_ ddo_ ddw_", "<alnum 36>", "random"),
    ("pulumi_token", "pul-", "<hex 40>", "some"),
    ("harness_token", "pat. sat.", "<word 22>\\.<hex 24>\\.<alnum 20>", "some"),
    ("octopus_key", "API-", "<upper 26>(?![A-Za-z0-9])", "random"),
    ("azure_devops_token", "AZDO", "<alnum 20+>", "random"),
    ("artifactory_key", "eyJ2ZXIiOiIyIi", "<dotted 60+>", "some"),
    ("infisical_token", "st.", "(?:<hex 24>|<uuid 36>)\\.<hex 32>\\.<hex 32>", "some"),
    ("snyk_token", "snyk_uat. snyk_sat.", "<dotted 40+>", "some"),
    ("jenkins_token", "11", "<hex 32>(?![A-Za-z0-9])", "random"),
    ("prefect_key", "pnu_ pnb_", "<alnum 36>", "some"),
    ("readme_key", "rdme_", "<lower 60+>", "some"),
    ("jsr_token", "jsrp_ jsrd_", "<alnum 36+>", "random"),
    ("openvsx_token", "ovsxp_ ovsxat_", "<uuid 36>", "some"),
    ("depot_token", "depot_project_ depot_org_ depot_user_ depot_", "<hex 64>", "some"),
    ("packagist_token", "packagist_uut_ packagist_out_ packagist_ack_", "<hex 60+>", "some"),
)

_SERVICES: Final[tuple[Row, ...]] = (
    (
        "slack_token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xoxb-1- xoxe.xoxp-1- xwfp-",
        "<percent 20+>",
        "random",
    ),
    ("slack_token", "xapp-", "\\d-<alnum 6+>-\\d{6,20}-<alnum 30+>", "some"),
    ("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_", "<alnum 16+>", "random"),
    ("webhook_secret", "whsec_ whsk_ whk_", "<base64 24+>", "random"),
    ("clerk_key", "sk_live_ sk_test_", "<word 30+>", "random"),
    ("sendgrid_key", "SG.", "<word 16+>\\.<word 30+>", "some"),
    ("mailgun_key", "key-", "<hex 32>(?![A-Za-z0-9])", "some"),
    ("brevo_key", "xkeysib- xsmtpsib-", "<word 40+>", "some"),
    ("resend_key", "re_", "<alnum 8>_<alnum 20+>", "random"),
    ("postmark_token", "PMT-", "<uuid 36>", "some"),
    ("twilio_key", "SK", "<hex 32>(?![A-Za-z0-9])", "some"),
    ("square_token", "EAAA sq0atp- sq0csp- sq0idp- sandbox-sq0atb-", "<word 22+>", "random"),
    ("twitter_token", "AAAAAAAAAAAAAAAAAAAA", "<percent 80+>", "mixed"),
    ("facebook_token", "EAA", "<alnum 60+>", "random"),
    ("instagram_token", "IGQ IGAA", "<word 60+>", "random"),
    ("shopify_token", "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_ shprt_", "<hex 32>", "some"),
    ("notion_token", "ntn_", "<alnum 30+>", "random"),
    ("notion_token", "secret_", "<alnum 40+>", "mixed"),
    ("linear_token", "lin_api_ lin_oauth_ lin_wh_", "<alnum 30+>", "random"),
    ("airtable_token", "pat", "<alnum 14>\\.<hex 60+>", "some"),
    ("figma_token", "figd_ figu_ figo_ figdr_ figoh_", "<word 30+>", "random"),
    ("newrelic_key", "NRAK- NRIQ- NRRA- NRII- NRAA- NRJS- NRSP-", "<word 19+>", "some"),
    ("sentry_token", "sntrys_ sntryu_ sntrya_ sntryi_", "<base64 32+>", "random"),
    ("grafana_token", "glsa_ glc_ gcom_", "<base64 32+>", "random"),
    ("postman_key", "PMAK- PMAT-", "<word 26+>", "some"),
    ("contentful_token", "CFPAT-", "<word 30+>", "some"),
    ("typeform_token", "tfp_", "<word 30+>", "some"),
    ("honeycomb_key", "hcaik_ hcbik_ hcxik_ hcxlk_ hcalk_ hcxmk_ hcamk_", "<lower 30+>", "some"),
    ("posthog_key", "phx_ phs_", "<alnum 30+>", "random"),
    ("launchdarkly_key", "sdk- api- mob-", "<hex 8>-<hex 4>-<hex 4>-<hex 4>-<hex 12>", "some"),
    ("statsig_key", "secret- console-", "<alnum 30+>", "mixed"),
    ("stytch_secret", "secret-live- secret-test-", "<base64 30+>", "random"),
    ("paddle_key", "pdl_live_apikey_ pdl_sdbx_apikey_ pdl_ntfset_", "<word 30+>", "some"),
    ("razorpay_key", "rzp_live_ rzp_test_", "<alnum 14+>", "random"),
    ("duffel_token", "duffel_live_ duffel_test_", "<word 40+>", "some"),
    ("easypost_key", "EZAK EZTK", "<alnum 54>", "some"),
    ("shippo_key", "shippo_live_ shippo_test_", "<hex 40>", "some"),
    ("lob_key", "live_ test_", "<hex 35>(?![A-Za-z0-9])", "random"),
    ("mollie_key", "live_ test_", "<alnum 30>(?![A-Za-z0-9])", "mixed"),
    ("gocardless_token", "live_ sandbox_", "<word 40>(?![A-Za-z0-9_-])", "mixed"),
    ("flutterwave_key", "FLWSECK- FLWSECK_TEST- FLWPUBK_TEST-", "<alnum 12+>(?:-X)?", "some"),
    ("paystack_key", "sk_", "<lower 40+>", "random"),
    ("plaid_token", "access-sandbox- access-development- access-production-", "<uuid 36>", "some"),
    ("adobe_secret", "p8e- p8-", "<word 32+>", "random"),
    ("frameio_token", "fio-u-", "<word 40+>", "some"),
    ("dropbox_token", "sl. sl.u.", "<word 60+>", "random"),
    ("hubspot_token", "pat-na1- pat-eu1- pat-na2- pat-ap1-", "<uuid 36>", "some"),
    ("intercom_token", "dG9rO", "<alnum 50+>={0,2}", "random"),
    ("lichess_token", "lip_ lio_", "<alnum 20>", "random"),
    ("beamer_token", "b_", "<base64 44>(?![A-Za-z0-9])", "mixed"),
    ("onesignal_key", "os_v2_app_ os_v2_org_", "<lower 60+>", "some"),
    ("pubnub_key", "sec-c-", "<base64 36+>", "some"),
    ("settlemint_token", "sm_aat_ sm_pat_ sm_sat_", "<alnum 16+>", "random"),
    ("scalingo_token", "tk-us-", "<word 48>", "random"),
    ("intra42_secret", "s-s4t2ud- s-s4t2af-", "<hex 64>", "some"),
    ("mapbox_token", "sk.eyJ tk.eyJ", "<dotted 60+>", "some"),
    ("klaviyo_key", "pk_", "<hex 34>(?![A-Za-z0-9])", "random"),
    ("clickup_token", "pk_", "\\d{5,10}_<upper 32>", "some"),
    ("private_extended_key", "xprv yprv zprv tprv", "<alnum 100+>", "some"),
    ("minisign_key", "RWRTY0Iy", "<base64 100+>", "some"),
    (
        "authress_key",
        "sc_ ext_ scauth_ authress_",
        "<lower 5+>\\.<lower 4+>\\.acc[_-]<word 10+>\\.<base64 30+>",
        "some",
    ),
    ("zapier_key", "sk-ak-", "<word 30+>", "random"),
    ("monday_token", "eyJhbGciOiJIUzI1NiJ9.eyJ0aWQi", "<dotted 40+>", "some"),
    ("courier_key", "pk_prod_ pk_test_", "<upper 28>", "some"),
    ("api_key", "sk_", "<word 43>(?![A-Za-z0-9_-])", "mixed"),
    ("svix_key", "testsk_ sk_", "<alnum 30+>\\.(?:eu|us|in)", "some"),
    ("rootly_key", "rootly_", "<hex 60+>", "some"),
    ("adafruit_key", "aio_", "<alnum 28>", "random"),
    ("axiom_token", "xaat- xapt- xait-", "<uuid 36>", "some"),
    ("calcom_key", "cal_live_ cal_", "<hex 32>(?![A-Za-z0-9])", "random"),
    ("censys_key", "censys_", "<alnum 8>_<alnum 24+>", "random"),
    ("checkly_key", "cu_ sv_", "<hex 32>(?![A-Za-z0-9])", "random"),
    ("discord_token", "mfa.", "<word 80+>", "random"),
    ("nostr_key", "nsec1", "<lower 58>(?![A-Za-z0-9])", "some"),
    ("onfido_key", "api_live. api_sandbox. api_live_us. api_live_ca.", "<word 11>\\.<word 32>", "some"),
    ("paseto", "v1.local. v2.local. v3.local. v4.local.", "<dotted 60+>", "random"),
    ("paseto", "v1.public. v2.public. v3.public. v4.public.", "<dotted 60+>", "random"),
    ("riot_key", "RGAPI-", "<uuid 36>", "some"),
    ("saml_response", "PHNhbWw PHNhbWx", "<base64 100+>", "some"),
    ("segment_token", "sgp_", "<alnum 64>", "mixed"),
    ("telnyx_key", "KEY", "<upper 32>_<alnum 22>", "some"),
    ("tiktok_token", "act. clt.", "<alnum 40+>", "mixed"),
    ("trello_token", "ATTA", "<hex 64><alnum 8>", "some"),
    ("webflow_token", "ws-", "<hex 64>", "random"),
)

VENDORS: Final[tuple[Row, ...]] = (*_MODELS, *_CLOUDS, *_CODE_HOSTS, *_SERVICES)

# Keys that are made to be published, in web pages for example, and ids of sessions of payment.
PUBLIC: Final = r"pk_(?:live|test)_|pk\.eyJ|phc_|sb_publishable_|cs_(?:live|test)_"

# Shapes without a prefix of their own: the kind, a part that has to occur, the shape, and what its `body` is like.
# They are tried where a long run of characters begins; a part of "" means wherever one does.
FAMILIES: Final[tuple[tuple[str, str, str, str], ...]] = (
    (
        "jwt",
        "ey",
        r"(?P<body>ey[A-Za-z0-9_-]{8,16384}\.ey[A-Za-z0-9_-]{4,16384}(?:\.[A-Za-z0-9_-]{0,16384})?)",
        "any",
    ),
    (
        "jwe",
        "ey",
        r"(?P<body>ey[A-Za-z0-9_-]{8,16384}\.[A-Za-z0-9_-]{0,2048}\.[A-Za-z0-9_-]{8,64}\.[A-Za-z0-9_-]{2,16384}\.[A-Za-z0-9_-]{8,64})",
        "any",
    ),
    (
        "discord_token",
        ".",
        r"(?P<body>[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})(?![A-Za-z0-9_-])",
        "mixed",
    ),
    ("mailchimp_key", "-us", r"(?P<body>[0-9a-f]{32})-us\d{1,2}(?![A-Za-z0-9])", "random"),
    ("terraform_token", ".atlasv1.", r"(?P<body>[A-Za-z0-9]{14})\.atlasv1\.[A-Za-z0-9_-]{40,120}", "any"),
    ("azure_client_secret", "~", r"(?P<body>[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])", "any"),
    ("azure_devops_token", "AZDO", r"(?P<body>[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?![A-Za-z0-9])", "any"),
    ("azure_key", "JQQJ99", r"(?P<body>[A-Za-z0-9]{30,60}JQQJ99[A-Za-z0-9]{20,60})(?![A-Za-z0-9])", "mixed"),
    ("mailgun_key", "-", r"(?P<body>[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8})(?![A-Za-z0-9-])", "random"),
    ("zhipu_key", ".", r"(?P<body>[0-9a-f]{32}\.[A-Za-z0-9]{16})(?![A-Za-z0-9.])", "mixed"),
    ("ngrok_token", "_", r"(?P<body>[123][A-Za-z0-9]{26}_[A-Za-z0-9]{20,21})(?![A-Za-z0-9_])", "mixed"),
    ("salesforce_token", "", r"(?<=00D[A-Za-z0-9]{12}!)(?P<body>[A-Za-z0-9._]{60,200})", "any"),
    ("rapidapi_key", "jsn", r"(?P<body>[A-Za-z0-9]{10}msh[A-Za-z0-9]{15}p1[A-Za-z0-9]{6}jsn[A-Za-z0-9]{12})", "any"),
    ("maxmind_key", "_mmk", r"(?P<body>[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?![A-Za-z0-9])", "any"),
    ("telegram_token", "AA", r"(?<=:)(?P<body>AA[A-Za-z0-9_-]{30,40})(?![A-Za-z0-9_-])", "random"),
    ("google_refresh_token", "0", r"(?<=1//)(?P<body>0[A-Za-z0-9_-]{30,200})", "random"),
    # A name that says that it is a key, then a random string: the prefix of a vendor that nobody listed.
    (
        "api_key",
        "",
        rf"(?!{PUBLIC})(?:[a-z][a-z0-9]{{1,14}}[_-]){{0,3}}(?:sk|pat|oat|key|token|secret|apikey|api|live|prod|auth|pw|pass|access|admin|svc)"
        r"(?:[_-](?:live|prod|test|v\d|sk|pat|key|token|secret))?[_-](?P<body>[A-Za-z0-9]{20,2048})(?![A-Za-z0-9])",
        "mixed",
    ),
    # Any short prefix, then a random string that is longer than the ids which look like it. Compilers write names of
    # functions with capitals before the first sign.
    (
        "api_key",
        "_",
        rf"(?!{PUBLIC})(?:[a-z][a-z0-9]{{0,14}}_){{1,3}}(?P<body>[A-Za-z0-9]{{32,2048}})(?![A-Za-z0-9])",
        "mixed",
    ),
)
