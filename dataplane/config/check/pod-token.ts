import { posix } from 'node:path'
import { escapeStep } from '../../../crds/settings/json.ts'
import type { Finding } from '../load.ts'
import { SERVICE_ACCOUNT_TOKEN } from './token-path.ts'

/** The folder of the configuration file in a pod. Relative paths begin there. */
const FOLDER = '/etc/portico/config'
/** The operator mounts the token of a registry's pod here, relative to the configuration file. */
const MOUNTED = '../cluster/token'
/** Members that hold paths of credentials. `tokenFile` is sent to the API server alone, CAs are sent to nobody. */
const CREDENTIAL = /^(?:file|path|(?!token|ca|log).+File)$/
/** Members whose names belong to authors, or whose paths are in a repository. */
const SKIPPED: ReadonlySet<string> = new Set(['claims', 'git.path'])

/**
 * Checks that no credential of a configuration is the token of the pod, which only the cluster's API server gets. A path
 * through `/proc` or `/dev` has no other reading than to hide where it leads.
 */
export function podTokenFindings(config: object, tokenFiles: readonly string[]): readonly Finding[] {
  const tokens = new Set([MOUNTED, SERVICE_ACCOUNT_TOKEN, ...tokenFiles].map(plainPath))
  return credentialsIn(config, '', '').flatMap(({ pointer, path }) => {
    if (tokens.has(path)) return [{ pointer, message: 'is the pod’s own token, which goes to the API server alone' }]
    return /^\/(?:proc|dev)\//.test(path)
      ? [{ pointer, message: 'must be a mounted file, not below /proc or /dev' }]
      : []
  })
}

/** Lists the paths of credentials in a block of a configuration. `parent` is the name of the block. */
function credentialsIn(block: object, at: string, parent: string): readonly { pointer: string; path: string }[] {
  return Object.entries(block).flatMap(([name, value]) => {
    if (SKIPPED.has(name) || SKIPPED.has(`${parent}.${name}`)) return []
    const pointer = `${at}/${escapeStep(name)}`
    if (typeof value === 'object' && value !== null) return credentialsIn(value, pointer, name)
    return typeof value === 'string' && CREDENTIAL.test(name) ? [{ pointer, path: plainPath(value) }] : []
  })
}

/** Returns an absolute path in one form, without the links by which Kubernetes changes the files of a volume. */
function plainPath(path: string): string {
  const plain = posix.resolve(FOLDER, path).replace(/\/\.\.[^/]+(?=\/)/g, '')
  return plain.replace(/^\/run\//, '/var/run/')
}
