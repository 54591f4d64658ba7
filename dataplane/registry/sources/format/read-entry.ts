import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import Type, { type Static } from 'typebox'
import { isObject } from '../../../../crds/settings/json.ts'
import { type IncomingVersion, isServerName, isVersion, printable, readUpstreamMeta } from '../../catalog/entry.ts'
import { nestsDeeperThan } from '../../catalog/json.ts'

/** An entry that was left out, or that is odd. `pointer` (RFC 6901) tells its place in the source. */
export interface Problem {
  readonly pointer: string
  readonly message: string
  /** Present if the entry is served nevertheless. */
  readonly served?: true
}

/** A larger document is left out, since a page has up to 100 documents. */
const LARGEST_DOCUMENT = 1024 * 1024
const DEEPEST = 64

const objects = Type.Array(Type.Object({}))

/**
 * The types of the fields that clients rely on. Lengths and formats of the official schemas are not checked, since real
 * catalogs break them.
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

const ajv = new Ajv()
const checkServer = ajv.compile<Static<typeof serverSchema>>(serverSchema)
const checkSkill = ajv.compile<Static<typeof skillSchema>>(skillSchema)

export function readServer(server: unknown, meta: unknown, pointer: string): IncomingVersion | Problem {
  if (isObject(server) && server['version'] === undefined && 'version_detail' in server)
    return {
      pointer,
      message: 'has the form of before 2025-09 (version_detail); write it as a current server.json',
    }
  if (!checkServer(server)) return describeViolation(checkServer, pointer)
  if (!isServerName(server.name))
    return { pointer: `${pointer}/name`, message: 'must be namespace/name of letters, digits and . _ -, 3 to 200 long' }
  return buildVersion({ type: 'server', name: server.name, document: server }, meta, pointer)
}

export function readSkill(skill: unknown, meta: unknown, pointer: string): IncomingVersion | Problem {
  if (!checkSkill(skill)) return describeViolation(checkSkill, pointer)
  const name = `${skill.namespace}/${skill.name}`
  if (!isServerName(name))
    return { pointer: `${pointer}/name`, message: 'must be, with its namespace, of letters, digits and . _ -' }
  return buildVersion({ type: 'skill', name, document: skill }, meta, pointer)
}

export function readDocument(
  type: IncomingVersion['type'],
  document: unknown,
  meta: unknown,
  pointer: string,
): IncomingVersion | Problem {
  if (nestsDeeperThan(document, DEEPEST) || nestsDeeperThan(meta, DEEPEST)) return describeDepth(pointer)
  const read = type === 'server' ? readServer : readSkill
  return read(mendDocument(document), mendMeta(meta), pointer)
}

interface Named {
  readonly type: IncomingVersion['type']
  readonly name: string
  readonly document: Static<typeof serverSchema> | Static<typeof skillSchema>
}

function buildVersion({ type, name, document }: Named, meta: unknown, pointer: string): IncomingVersion | Problem {
  const { version, title = null, description = null } = document
  if (!isVersion(version))
    return { pointer: `${pointer}/version`, message: 'must have 1 to 255 characters and not be "latest"' }
  if (nestsDeeperThan(document, DEEPEST) || nestsDeeperThan(meta, DEEPEST)) return describeDepth(pointer)
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

const describeDepth = (pointer: string): Problem => ({
  pointer,
  message: `must not nest deeper than ${DEEPEST} levels`,
})

function describeViolation(check: ValidateFunction, pointer: string): Problem {
  const [{ instancePath, message }] = check.errors as [ErrorObject]
  return { pointer: pointer + instancePath, message: message ?? 'is not valid' }
}

/** The optional members of documents, at any depth. In other members null may mean something to the publisher. */
const OPTIONAL: ReadonlySet<string> = new Set([
  ...['$schema', '_meta', 'title', 'description', 'websiteUrl', 'icons', 'packages', 'remotes', 'repository'],
  ...['registryType', 'registryBaseUrl', 'identifier', 'version', 'fileSha256', 'runtimeHint', 'transport'],
  ...['runtimeArguments', 'packageArguments', 'environmentVariables', 'headers', 'variables', 'url', 'type', 'name'],
  ...['isRequired', 'isSecret', 'isRepeated', 'format', 'value', 'valueHint', 'default', 'placeholder', 'choices'],
  ...['src', 'mimeType', 'sizes', 'theme', 'source', 'id', 'subfolder', 'status', 'license', 'files', 'metadata'],
])

/**
 * Repairs a document: removes optional members and list elements that are null, and invalid characters. Below `_meta`,
 * null stays. Returns the same value if nothing needs repair. The caller has bounded the depth.
 */
function mendValue(value: unknown, keepsNull = false): unknown {
  if (typeof value === 'string') return printable(value)
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value
  if (Array.isArray(value)) {
    const items = value.filter((item) => item !== null || keepsNull).map((item) => mendValue(item, keepsNull))
    return items.length < value.length || items.some((item, index) => item !== value[index]) ? items : value
  }
  return isObject(value) ? mendMembers(value, keepsNull) : value
}

function mendMembers(value: Readonly<Record<string, unknown>>, keepsNull: boolean): unknown {
  const members = Object.entries(value)
  const kept: [string, unknown][] = []
  let isSame = true
  for (const [key, member] of members) {
    if (member === null && !keepsNull && OPTIONAL.has(key)) continue
    const entry: [string, unknown] = [printable(key), mendValue(member, keepsNull || key === '_meta')]
    isSame &&= entry[0] === key && entry[1] === member
    kept.push(entry)
  }
  return isSame && kept.length === members.length ? value : Object.fromEntries(kept)
}

/** Repairs a document except its name and version, since a change of these would make it another version. */
function mendDocument(document: unknown): unknown {
  const found = mendValue(document)
  if (found === document || !isObject(found) || !isObject(document)) return found
  const own = Object.entries(document).filter(([key]) => IDENTITY.has(key) && document[key] !== null)
  return Object.fromEntries([...Object.entries(found), ...own])
}

const IDENTITY: ReadonlySet<string> = new Set(['namespace', 'name', 'version'])

const mendMeta = (meta: unknown): unknown => mendValue(meta, true)
