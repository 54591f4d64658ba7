import { posix } from 'node:path'
import { escapeStep } from '../../../crds/settings/json.ts'
import type { FileUse, SchemaNode } from '../../../crds/settings/schema.ts'
import type { Finding } from '../load.ts'
import { SERVICE_ACCOUNT_TOKEN } from './token-path.ts'

/** The folder of the configuration file in a pod. Relative paths begin there. */
const FOLDER = '/etc/portico/config'
/** The operator mounts the token of a registry's pod here, relative to the configuration file. */
const MOUNTED = '../cluster/token'

/**
 * Checks that no file whose content may leave the pod is the pod's own token, which only the cluster's API server gets. A
 * path through `/proc` or `/dev` has no other reading than to hide where it leads. `schema`: that of the configuration,
 * which says who gets the content of each file.
 */
export function podTokenFindings(config: object, schema: object): readonly Finding[] {
  const files = filesIn(config, schema as SchemaNode, '')
  const own = files.filter(({ use }) => use === 'ownToken').map(({ path }) => path)
  const tokens = new Set([MOUNTED, SERVICE_ACCOUNT_TOKEN, ...own].map(plainPath))
  return files
    .filter(({ use }) => use === 'others')
    .flatMap(({ pointer, path }) => {
      const plain = plainPath(path)
      if (tokens.has(plain)) return [{ pointer, message: 'is the pod’s own token, which goes to the API server alone' }]
      return /^\/(?:proc|dev)\//.test(plain)
        ? [{ pointer, message: 'must be a mounted file, not below /proc or /dev' }]
        : []
    })
}

interface NamedFile {
  readonly pointer: string
  readonly path: string
  readonly use: FileUse
}

/** Lists the files that a value names. The value may violate the schema. */
function filesIn(value: unknown, schema: SchemaNode | undefined, pointer: string): readonly NamedFile[] {
  if (schema === undefined) return []
  const { namesFile, properties, items, additionalProperties } = schema
  if (typeof value === 'string') return namesFile === undefined ? [] : [{ pointer, path: value, use: namesFile }]
  if (typeof value !== 'object' || value === null) return []
  const others = typeof additionalProperties === 'object' ? additionalProperties : undefined
  return Object.entries(value).flatMap(([name, member]) => {
    const inner = Array.isArray(value)
      ? items
      : properties && Object.hasOwn(properties, name)
        ? properties[name]
        : others
    return filesIn(member, inner, `${pointer}/${escapeStep(name)}`)
  })
}

/** Returns an absolute path in one form, without the links by which Kubernetes changes the files of a volume. */
function plainPath(path: string): string {
  const plain = posix.resolve(FOLDER, path).replace(/\/\.\.[^/]+(?=\/)/g, '')
  return plain.replace(/^\/run\//, '/var/run/')
}
