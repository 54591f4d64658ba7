import pino, { type DestinationStream, type Level, type Logger } from 'pino'
import { withoutUrlSecrets } from '../config/url-secrets.ts'

interface LogOptions {
  /** Which part of Portico writes. */
  readonly name: string
  readonly level: Level
  /** Fields of every line. */
  readonly base?: Readonly<Record<string, string>>
  /** Where lines go; absent: standard error. */
  readonly destination?: DestinationStream
}

const SECRET_FIELDS = [
  'authorization',
  'Authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'token',
  'accessToken',
  'access_token',
  'refreshToken',
  'refresh_token',
  'idToken',
  'id_token',
  'clientSecret',
  'client_secret',
  'secret',
  'password',
  'passphrase',
  'privateKey',
  'assertion',
  'code_verifier',
]
const REDACTED = '[redacted]'
/** A field is found at the top, or inside one or two objects: `headers.cookie`, `request.headers.cookie`. */
const PATHS = SECRET_FIELDS.flatMap((field) => ['', '*', '*.*'].map((parent) => `${parent}["${field}"]`))
/** What may have slipped into a text: a bearer or basic credential, a JSON Web Token. */
const CREDENTIAL = /\b(Bearer|Basic) +[\w.~+/-]{8,}=*|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/gi

/**
 * Writes JSON lines with ISO time and the level's name. Secrets are redacted by field name and by pattern, and URLs are
 * written without user name, password and query, which may hold keys.
 */
export function createLog({ name, level, base, destination }: LogOptions): Logger {
  return pino(
    {
      name,
      level,
      base: { ...base },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: PATHS, censor: REDACTED },
      hooks: { streamWrite: (line) => withoutUrlSecrets(line.replace(CREDENTIAL, REDACTED)) },
    },
    destination ?? pino.destination({ dest: 2, sync: true }),
  )
}
