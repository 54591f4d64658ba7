import { type Static, Type } from 'typebox'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import type { Finding } from '../../dataplane/config/load.ts'
import { configParser } from '../../dataplane/config/read/parse.ts'

const strict = { additionalProperties: false } as const
const text = Type.String({ minLength: 1, maxLength: 2_048 })
const url = Type.String({ format: 'uri', maxLength: 2_048 })
const duration = (fallback: string) => Type.String({ pattern: '^([0-9]+(h|m|s))+$', maxLength: 32, default: fallback })

const oidc = Type.Object(
  {
    issuerUrl: url,
    clientId: text,
    clientSecretFile: Type.Optional(text),
    scopes: Type.Array(text, { default: ['openid', 'profile', 'email', 'offline_access'], maxItems: 50 }),
    use: Type.Enum(['idToken', 'accessToken'], { default: 'idToken' }),
    caBundleFile: Type.Optional(text),
    insecureAllowHTTP: Type.Boolean({ default: false }),
  },
  strict,
)

const proxy = Type.Object(
  {
    trustedProxies: Type.Array(text, { minItems: 1, maxItems: 100 }),
    tokenHeader: Type.String({ default: 'X-Forwarded-Id-Token', pattern: '^[A-Za-z0-9-]{1,100}$' }),
  },
  strict,
)

/** The schema of the configuration file of a console in a pod. */
const schema = Type.Object(
  {
    publicUrl: url,
    login: Type.Object(
      { oidc: Type.Optional(oidc), token: Type.Optional(Type.Object({}, strict)), proxy: Type.Optional(proxy) },
      { ...strict, minProperties: 1, maxProperties: 1 },
    ),
    session: Type.Object(
      {
        keyFiles: Type.Array(text, { default: [], maxItems: 10 }),
        maxAge: duration('12h'),
        idle: duration('1h'),
      },
      { ...strict, default: {} },
    ),
    namespaces: Type.Array(Type.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 }), {
      default: [],
      maxItems: 1_000,
    }),
    changes: Type.Enum(['copy'], { default: 'copy' }),
    metrics: Type.Optional(
      Type.Object(
        { prometheusUrl: url, bearerTokenFile: Type.Optional(text), caBundleFile: Type.Optional(text) },
        strict,
      ),
    ),
    allowedHosts: Type.Array(text, { default: [], maxItems: 100 }),
    kubernetes: Type.Optional(Type.Object({ server: Type.Optional(url), caFile: Type.Optional(text) }, strict)),
    apiGroup: Type.Optional(text),
    logLevel: Type.Enum(['debug', 'info', 'warn', 'error'], { default: 'info' }),
  },
  strict,
)

export type ConsoleConfig = Static<typeof schema>
export type OidcLogin = Static<typeof oidc>

const SECONDS: Readonly<Record<string, number>> = { h: 3_600, m: 60, s: 1 }

/** Returns the milliseconds of a duration such as `12h` or `1h30m`. */
export const milliseconds = (given: string): number =>
  [...given.matchAll(/(\d+)([hms])/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (SECONDS[unit as string] as number) * 1000,
    0,
  )

/** Checks that URLs are safe, which the schema can't express. */
function check({ publicUrl, login, kubernetes, metrics }: ConsoleConfig): readonly Finding[] {
  const findings: Finding[] = []
  const mustBeSafe = (given: string | undefined, pointer: string, isAllowed = false) => {
    const parsed = URL.parse(given ?? '')
    if (given === undefined || parsed === null) return
    const isPlain = parsed.protocol === 'http:' && (isAllowed || isLoopback(parsed))
    if (parsed.protocol !== 'https:' && !isPlain)
      findings.push({ pointer, message: 'must be https (http on loopback)' })
    if (parsed.username !== '' || parsed.hash !== '')
      findings.push({ pointer, message: 'must have no user name and no fragment' })
  }
  mustBeSafe(publicUrl, '/publicUrl')
  mustBeSafe(login.oidc?.issuerUrl, '/login/oidc/issuerUrl', login.oidc?.insecureAllowHTTP)
  mustBeSafe(kubernetes?.server, '/kubernetes/server')
  // A bearer token must not go over plain http, except on this machine.
  if (metrics?.bearerTokenFile !== undefined) mustBeSafe(metrics.prometheusUrl, '/metrics/prometheusUrl')
  const path = URL.parse(publicUrl)?.pathname
  if (path !== undefined && path !== '/') findings.push({ pointer: '/publicUrl', message: 'must have no path' })
  if (login.oidc !== undefined && !login.oidc.scopes.includes('openid'))
    findings.push({ pointer: '/login/oidc/scopes', message: 'must hold openid' })
  return findings
}

/** Parses a console's configuration file. Throws a ConfigError with all findings. */
export const parseConsole: (text: string, file?: string) => ConsoleConfig = configParser(schema, check)
