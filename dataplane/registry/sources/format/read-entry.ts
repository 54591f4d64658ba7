import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import Type from 'typebox'
import { isObject } from '../../../../crds/settings/json.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { nestsDeeperThan } from '../../catalog/json.ts'
import { isServerName, isVersion, printable } from '../../catalog/names.ts'
import { readUpstreamMeta } from '../../catalog/official-meta.ts'
import { mendedDocument, mendedMeta } from './mended.ts'

/** An entry that was left out, or that is odd. `pointer` (RFC 6901) leads into the source's bytes. */
export interface Problem {
  readonly pointer: string
  readonly message: string
  /** Present if the entry is served all the same. */
  readonly served?: true
}

/** A larger document is left out: a page has up to 100 of them. */
const LARGEST_DOCUMENT = 1024 * 1024
const DEEPEST = 64

const objects = Type.Array(Type.Object({}))

/**
 * The types of the fields that clients rely on. Lengths and formats of the dated schemas are not checked: real catalogs
 * break them.
 */
const serverSchema = Type.Object({
  name: Type.String(),
  description: Type.String(),
  version: Type.String(),
  title: Type.Optional(Type.String()),
  packages: Type.Optional(objects),
  remotes: Type.Optional(objects),
  icons: Type.Optional(objects),
  repository: Type.Optional(Type.Object({})),
  _meta: Type.Optional(Type.Object({})),
})

const skillSchema = Type.Object({
  namespace: Type.String({ minLength: 1, maxLength: 128 }),
  name: Type.String({ minLength: 1, maxLength: 64 }),
  version: Type.String(),
  description: Type.Optional(Type.String()),
  title: Type.Optional(Type.String()),
})

interface Server {
  readonly name: string
  readonly description: string
  readonly version: string
  readonly title?: string
}

interface Skill {
  readonly namespace: string
  readonly name: string
  readonly version: string
  readonly description?: string
  readonly title?: string
}

const ajv = new Ajv()
const checkServer = ajv.compile<Server>(serverSchema)
const checkSkill = ajv.compile<Skill>(skillSchema)

export function readServer(server: unknown, meta: unknown, pointer: string): IncomingVersion | Problem {
  if (isObject(server) && server['version'] === undefined && 'version_detail' in server)
    return {
      pointer,
      message: 'is of the form of before 2025-09 (version_detail); write it as a current server.json',
    }
  if (!checkServer(server)) return violation(checkServer, pointer)
  if (!isServerName(server.name))
    return { pointer: `${pointer}/name`, message: 'must be namespace/name of letters, digits and . _ -, 3 to 200 long' }
  return finish({ type: 'server', name: server.name, document: server }, meta, pointer)
}

export function readSkill(skill: unknown, meta: unknown, pointer: string): IncomingVersion | Problem {
  if (!checkSkill(skill)) return violation(checkSkill, pointer)
  const name = `${skill.namespace}/${skill.name}`
  if (!isServerName(name))
    return { pointer: `${pointer}/name`, message: 'must be, with its namespace, of letters, digits and . _ -' }
  return finish({ type: 'skill', name, document: skill }, meta, pointer)
}

export function readDocument(
  type: IncomingVersion['type'],
  document: unknown,
  meta: unknown,
  pointer: string,
): IncomingVersion | Problem {
  if (nestsDeeperThan(document, DEEPEST) || nestsDeeperThan(meta, DEEPEST)) return tooDeep(pointer)
  const read = type === 'server' ? readServer : readSkill
  return read(mendedDocument(document), mendedMeta(meta), pointer)
}

interface Named {
  readonly type: IncomingVersion['type']
  readonly name: string
  readonly document: Server | Skill
}

function finish({ type, name, document }: Named, meta: unknown, pointer: string): IncomingVersion | Problem {
  const { version, title = null, description = null } = document
  if (!isVersion(version))
    return { pointer: `${pointer}/version`, message: 'must have 1 to 255 characters and not be "latest"' }
  if (nestsDeeperThan(document, DEEPEST) || nestsDeeperThan(meta, DEEPEST)) return tooDeep(pointer)
  const text = JSON.stringify(document)
  if (text.length > LARGEST_DOCUMENT)
    return { pointer, message: `must not be longer than ${LARGEST_DOCUMENT} characters` }
  return {
    type,
    name,
    version,
    title: title && printable(title),
    description: description && printable(description),
    document: text,
    ...readUpstreamMeta(meta),
  }
}

const tooDeep = (pointer: string): Problem => ({ pointer, message: `must not nest deeper than ${DEEPEST} levels` })

function violation(check: ValidateFunction, pointer: string): Problem {
  const [{ instancePath, message }] = check.errors as [ErrorObject]
  return { pointer: pointer + instancePath, message: message ?? 'is not valid' }
}
