/** Checks that a kind's schema and the configuration file accept the same values for each setting of a gateway or proxy. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds } from '../../crds/index.ts'
import { type CredentialDeclaration, credentialTypes } from '../../crds/settings/auth/external-auth.ts'
import { isInFiles, nameInFile } from '../../crds/settings/file-form.ts'
import { compileStructure } from '../../crds/structure.ts'
import { childSchema, findValueSchema, type SchemaNode } from '../../crds/walk.ts'
import { gatewayConfigSchema } from '../../dataplane/config/gateway.ts'
import { compile } from '../../dataplane/config/schema-violations.ts'

/** Returns the node at a path in a schema; `*` is a list item. */
const nodeAt = (root: SchemaNode, path: string): SchemaNode =>
  path
    .split('/')
    .filter((step) => step !== '')
    .reduce<SchemaNode>((node, step) => {
      const child = step === '*' ? node.items : childSchema(node, step)
      if (child === undefined) throw new TypeError(`there is no ${step} of ${path}`)
      return child
    }, root)

const kindAt = (kind: keyof typeof kinds, path: string) => nodeAt(kinds[kind].spec as SchemaNode, path)
const fileAt = (path: string) => nodeAt(gatewayConfigSchema as SchemaNode, path)

/** Returns texts of a length, in the forms that patterns require. */
const ofLength = (length: number): readonly string[] =>
  [
    ['', ''],
    ['https://a.example/', ''],
    ['', ':1'],
    ['1', 's'],
  ].flatMap(([start = '', end = '']) =>
    start.length + end.length > length ? [] : `${start.padEnd(length - end.length, start === '1' ? '1' : 'a')}${end}`,
  )

const TEXTS = [
  ...['', ' ', 'a', 'A', 'a b', 'op en', 'a_b', '-a', 'a-', 'a.b', 'a:b', '1a', 'é', 'a"b', 'a\\b', 'a\nb', '\u0000'],
  ...[
    '*',
    'a*',
    'get',
    'POST',
    'put',
    '1',
    '1s',
    '0s',
    '1.5h',
    '1h30m',
    '-1s',
    '1d',
    '1s 5m',
    'redis:6379',
    ':1',
    'a:',
  ],
  ...['http://a.example', 'https://a.example', 'https://a.example/b c', 'https://a.example/#b', 'HTTPS://a.example'],
  ...['ftp://a.example', 'https://', 'http://127.0.0.1:8080/a', '[]'],
]
const OF_EACH_TYPE = ['x', 0, 1.5, true, false, [], ['x'], {}, { x: 'x' }]

/** Returns a node with its own keywords, whose parts accept anything. */
const shell = (node: SchemaNode): SchemaNode => ({
  ...node,
  ...(node.items === undefined ? {} : { items: {} }),
  ...(findValueSchema(node) === undefined ? {} : { additionalProperties: {} }),
})

interface Bounds {
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly minimum?: number
  readonly maximum?: number
}

const valuesAround = (...bounds: readonly (number | undefined)[]) =>
  bounds.flatMap((bound) => (bound === undefined ? [] : [bound - 1, bound, bound + 1]))

const readKey = (node: SchemaNode) => node['x-kubernetes-list-map-keys']?.[0]

/** Returns a distinct item. If a key identifies the items, the file's rules refuse duplicates. */
const buildItem = (list: SchemaNode, index: number) => {
  const key = readKey(list)
  return key === undefined ? index : { [key]: `a${index}` }
}

/** Returns values at, below and above each limit of two schemas, of wrong forms and of wrong types. */
function valuesFor(one: SchemaNode, other: SchemaNode): readonly unknown[] {
  const both: readonly Bounds[] = [one as Bounds, other as Bounds]
  const counts = (bounds: readonly number[]) => bounds.filter((count) => count >= 0)
  const lengths = counts(both.flatMap(({ minLength, maxLength }) => valuesAround(minLength, maxLength)))
  const items = counts(both.flatMap(({ minItems, maxItems }) => valuesAround(minItems, maxItems)))
  const keys = counts(both.flatMap(({ maxProperties }) => valuesAround(maxProperties)))
  return [
    ...OF_EACH_TYPE,
    ...TEXTS,
    ...(one.enum ?? []),
    ...(other.enum ?? []),
    ...lengths.flatMap(ofLength),
    ...both.flatMap(({ minimum, maximum }) => valuesAround(minimum, maximum)),
    ...items.map((length) => Array.from({ length }, (_, index) => buildItem(one, index))),
    ...(readKey(one) === undefined ? [['x', 'x']] : []),
    ...keys.map((length) => Object.fromEntries(Array.from({ length }, (_, index) => [`a${index}`, 'a']))),
  ]
}

/** Returns the required fields without a default. */
const listRequired = ({ required = [], properties = {} }: SchemaNode) =>
  required.filter((name) => properties[name]?.default === undefined)

const format = (value: unknown) => JSON.stringify(value).replace(/^(.{40}).+$/s, '$1…')

/** Returns the differences between two objects, and between each of their fields. */
function objectDifferences(field: string, kind: SchemaNode, file: SchemaNode, left: readonly string[]): string[] {
  const fields = Object.entries(kind.properties ?? {}).filter(
    ([name, child]) => !left.includes(name) && isInFiles(child),
  )
  const needed = new Set(listRequired(kind))
  const neededInFile = new Set(listRequired(file))
  return [
    ...(kind.additionalProperties === false && file.additionalProperties === false
      ? []
      : [`${field} takes unknown fields`]),
    ...fields.flatMap(([name, child]) => {
      const inFile = nameInFile(name, child)
      const other = file.properties?.[inFile]
      const place = `${field}/${name}`
      if (other === undefined) return [`${place} is not in the file`]
      const differs = needed.has(name) === neededInFile.has(inFile) ? [] : [`${place} must be set on one side alone`]
      return [...differs, ...differences(place, child, other)]
    }),
  ]
}

/** Makes one check of all equal schemas: many fields have the same. */
function once<C>(make: (schema: SchemaNode) => C): (schema: SchemaNode) => C {
  const made = new Map<string, C>()
  return (schema) => {
    const key = JSON.stringify(schema)
    const check = made.get(key) ?? make(schema)
    made.set(key, check)
    return check
  }
}
const kindCheck = once((schema) => compileStructure(schema))
const fileCheck = once((schema) => compile(schema as object))

/** Returns every value that one of the two fields accepts and the other refuses. */
function differences(field: string, kind: SchemaNode, file: SchemaNode, left: readonly string[] = []): string[] {
  if (kind.properties !== undefined && kind.mountedAs === undefined) return objectDifferences(field, kind, file, left)
  if (kind.mountedAs !== undefined) return file.type === 'string' ? [] : [`${field} is no path`]
  const [inKind, inFile] = [kindCheck(shell(kind)), fileCheck(shell(file))]
  const values = valuesFor(kind, file)
  const [items, otherItems] = [kind.items, file.items]
  const [inner, otherInner] = [findValueSchema(kind), findValueSchema(file)]
  return [
    ...values
      .filter((value) => (inKind(value).length === 0) !== (inFile(value).length === 0))
      .map(
        (value) => `${field}: ${format(value)} is taken by the ${inKind(value).length === 0 ? 'kind' : 'file'} alone`,
      ),
    ...(items && otherItems ? differences(`${field}/*`, items, otherItems) : []),
    ...(inner && otherInner ? differences(`${field}/*`, inner, otherInner) : []),
  ]
}

const redis = { spec: 'sessionStorage/redis', file: fileAt('sessionStorage/redis') }
const gateway = (path: string) => kindAt('VirtualMCPServer', path)

/** The blocks of credential types that a file has, too. */
const credentialRows = Object.fromEntries(
  Object.entries<CredentialDeclaration>(credentialTypes)
    .filter(([, { file }]) => file !== undefined)
    .map(([type]) => [
      `a credential of type ${type}`,
      [kindAt('MCPExternalAuthConfig', type), fileAt(`backends/*/credential/${type}`)] as const,
    ]),
)

/** The compared parts of the kind and of the file, and the fields of the kind without a counterpart in the file. */
const rows: Readonly<Record<string, readonly [kind: SchemaNode, file: SchemaNode, left?: readonly string[]]>> = {
  'a gateway’s authorization server': [
    gateway('authServerConfig'),
    fileAt('authServer'),
    // The first has its own row below; the operator handles the other.
    ['storage', 'disableUpstreamTokenInjection'],
  ],
  'an authorization server of several proxies': [
    kindAt('MCPExternalAuthConfig', 'embeddedAuthServer'),
    fileAt('authServer'),
    ['storage', 'disableUpstreamTokenInjection'],
  ],
  'its storage': [gateway('authServerConfig/storage/type'), fileAt('authServer/storage/type')],
  'its Redis': [
    gateway('authServerConfig/storage/redis'),
    fileAt('authServer/storage/redis'),
    ['addr', 'sentinelConfig', 'clusterMode', 'aclUserConfig'],
  ],
  'a Redis of sessions': [gateway(redis.spec), redis.file, ['addr', 'sentinelConfig', 'clusterMode', 'aclUserConfig']],
  'a server of Redis': [gateway(`${redis.spec}/addr`), nodeAt(redis.file, 'addresses/*')],
  'a server of sessions': [gateway('sessionStorage/address'), nodeAt(redis.file, 'addresses/*')],
  'Sentinels of Redis': [gateway(`${redis.spec}/sentinelConfig/sentinelAddrs`), nodeAt(redis.file, 'addresses')],
  'a master of Redis': [gateway(`${redis.spec}/sentinelConfig/masterName`), nodeAt(redis.file, 'masterName')],
  'a database of Sentinel': [gateway(`${redis.spec}/sentinelConfig/db`), nodeAt(redis.file, 'db')],
  'a database of sessions': [gateway('sessionStorage/db'), nodeAt(redis.file, 'db')],
  'a gateway’s policies': [gateway('incomingAuth/authzConfig/inline'), fileAt('authz')],
  'a gateway’s groups': [gateway('incomingAuth/authzConfig'), fileAt('authz'), ['type', 'configMap', 'inline']],
  'a proxy’s policies': [kindAt('MCPServer', 'authzConfig/inline'), fileAt('authz')],
  'a proxy’s groups': [kindAt('MCPServer', 'authzConfig'), fileAt('authz'), ['type', 'configMap', 'inline']],
}

const gatewayRows: typeof rows = {
  'an issuer of tokens': [
    kindAt('MCPOIDCConfig', 'inline'),
    fileAt('incomingAuth/oidc'),
    // Without an issuer a file uses that of the API server; introspection is a separate block there.
    ['issuer', 'clientId', 'clientSecretRef', 'introspectionUrl'],
  ],
  'introspection of tokens': [
    kindAt('MCPOIDCConfig', 'inline/introspectionUrl'),
    fileAt('incomingAuth/oidc/introspection/url'),
  ],
  'scopes of tokens': [gateway('incomingAuth/oidcConfigRef/scopes'), fileAt('incomingAuth/oidc/scopes')],
  aggregation: [gateway('config/aggregation'), fileAt('aggregation')],
  'failures of backends': [gateway('config/operational/failureHandling'), fileAt('failureHandling')],
  'a timeout': [gateway('config/operational/timeouts/default'), fileAt('timeouts/default')],
  'a timeout of a backend': [gateway('config/operational/timeouts/perWorkload/x'), fileAt('backends/*/timeout')],
  'the log level': [gateway('config/operational/logLevel'), fileAt('logLevel')],
  'tool search': [gateway('config/optimizer'), fileAt('optimizer')],
  'pages of other hosts': [gateway('config/cors'), fileAt('cors')],
  'headers that are passed on': [gateway('config/passthroughHeaders'), fileAt('passthroughHeaders')],
  'counters of calls': [gateway('config/usage'), fileAt('usage')],
  'rate limits': [gateway('config/rateLimiting'), fileAt('rateLimiting')],
  'a composite tool': [gateway('config/compositeTools/*'), fileAt('compositeTools/*')],
  'an era': [kindAt('MCPRemoteProxy', 'protocolEra'), fileAt('backends/*/protocolEra')],
}

for (const [what, [kind, file, left]] of Object.entries({ ...rows, ...credentialRows, ...gatewayRows }))
  test(what, () => {
    assert.equal(differences('', kind, file, left), [])
  })

test.run()
