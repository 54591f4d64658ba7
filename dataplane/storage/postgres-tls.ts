import { type ConnectionOptions, getCACertificates } from 'node:tls'
import pg from 'pg'
import { secretFile } from '../config/secret-file.ts'

/** The values of libpq's `sslmode` (PostgreSQL documentation, section 34.19). */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
export type SslMode = (typeof SSL_MODES)[number]

/** The default if neither the configuration nor the URL sets a mode. */
const DEFAULT_MODE: SslMode = 'require'

export interface TlsSettings {
  readonly sslMode?: SslMode | undefined
  /** The absolute path of a PEM file with the only CAs that are trusted; absent: those of the system. */
  readonly caFile?: string | undefined
}

/** The TLS of a connection; false: none. */
export type Transport = false | ConnectionOptions

/**
 * Takes the TLS parameters out of a connection URL, since the driver understands them differently. The settings take
 * precedence over them. Throws an Error for an unknown `sslmode`.
 */
export function extractTls(url: string, settings: TlsSettings): { readonly url: string; readonly tls: TlsSettings } {
  const at = url.indexOf('?')
  if (at < 0) return { url, tls: settings }
  const parameters = new URLSearchParams(url.slice(at + 1))
  const mode = parameters.get('sslmode')
  const root = parameters.get('sslrootcert')
  if (mode !== null && !isMode(mode))
    throw new Error(`the database URL has an unknown sslmode; it is one of ${SSL_MODES.join(', ')}`)
  for (const name of TLS_PARAMETERS) parameters.delete(name)
  const rest = parameters.toString()
  return {
    url: url.slice(0, at) + (rest === '' ? '' : `?${rest}`),
    tls: {
      sslMode: settings.sslMode ?? mode ?? undefined,
      caFile: settings.caFile ?? (root === null || root === 'system' ? undefined : root),
    },
  }
}

const TLS_PARAMETERS = ['ssl', 'sslmode', 'sslrootcert', 'sslnegotiation', 'uselibpqcompat']
const isMode = (text: string): text is SslMode => (SSL_MODES as readonly string[]).includes(text)

/** Lists the transports to try, in order, as libpq does for the mode. */
export function listTransports({ sslMode = DEFAULT_MODE, caFile }: TlsSettings): readonly [Transport, ...Transport[]] {
  // As in libpq, a configured CA is always checked.
  const mode = sslMode === 'require' && caFile !== undefined ? 'verify-ca' : sslMode
  const unchecked = { rejectUnauthorized: false }
  switch (mode) {
    case 'disable':
      return [false]
    case 'allow':
      return [false, unchecked]
    case 'prefer':
      return [unchecked, false]
    case 'require':
      return [unchecked]
    default:
      return [
        {
          rejectUnauthorized: true,
          ca: caFile === undefined ? getCACertificates('default') : [secretFile(caFile)()],
          ...(mode === 'verify-ca' && { checkServerIdentity: () => undefined }),
        },
      ]
  }
}

/** The errors of Node and the driver when TLS fails, certificates included. */
const TLS_FAILED =
  /^(EPROTO|ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA)|does not support SSL|establishing an SSL connection|before secure TLS connection/

export function isTlsError(error: unknown): boolean {
  return (
    error instanceof Error &&
    (TLS_FAILED.test((error as NodeJS.ErrnoException).code ?? '') || TLS_FAILED.test(error.message))
  )
}

/** Tells whether libpq would try the next transport: TLS has failed, or the server refuses clients with this one. */
function shouldTryNext(error: unknown): boolean {
  return isTlsError(error) || (error instanceof pg.DatabaseError && /^28/.test(error.code ?? ''))
}

/** Connects by the first transport that works. Throws the error of the last one. */
export async function connectInTurn<T>(
  transports: readonly Transport[],
  connect: (transport: Transport) => Promise<T>,
): Promise<T> {
  for (let at = 0; ; at++) {
    try {
      return await connect(transports[at] as Transport)
    } catch (error) {
      if (at + 1 >= transports.length || !shouldTryNext(error)) throw error
    }
  }
}
