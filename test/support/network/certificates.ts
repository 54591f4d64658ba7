import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Authority {
  /** Contains `ca.pem`, `key.pem` and `cert.pem`. */
  readonly directory: string
  readonly ca: string
  readonly key: string
  /** For 127.0.0.1, ::1 and localhost. */
  readonly cert: string
  remove(): Promise<void>
}

/** Creates a private certificate authority with one certificate for loopback. Needs the command openssl. */
export async function createAuthority(): Promise<Authority> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-ca-'))
  const openssl = (...args: readonly string[]) => run('openssl', args, { cwd: directory })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'] as const
  await openssl('req', '-x509', ...key, '-subj', '/CN=Portico test CA', '-keyout', 'ca-key.pem', '-out', 'ca.pem')
  await openssl(
    ...['req', '-x509', ...key, '-subj', '/CN=localhost', '-keyout', 'key.pem', '-out', 'cert.pem'],
    ...['-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1'],
    ...['-addext', 'basicConstraints=critical,CA:FALSE'],
  )
  const read = (name: string) => readFile(join(directory, name), 'utf8')
  return {
    directory,
    ca: await read('ca.pem'),
    key: await read('key.pem'),
    cert: await read('cert.pem'),
    remove: () => rm(directory, { recursive: true }),
  }
}
