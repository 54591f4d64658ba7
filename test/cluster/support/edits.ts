import type { KubernetesObject } from '../../../operator/model/view.ts'

/**
 * Makes every edit of an object that a person could make, as JSON patches: fields and items changed, removed and added.
 */
export interface Edit {
  readonly what: string
  readonly operations: readonly { op: 'add' | 'replace' | 'remove'; path: string; value?: unknown }[]
}

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

const escapeKey = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** Returns another value of the same type. */
function another(value: Json, path: string): Json {
  if (typeof value === 'number') return value + 1
  if (typeof value === 'boolean') return !value
  if (typeof value === 'string')
    return /^[0-9]+(Mi|m)$/.test(value) ? `1${value}` : `${value}${path.endsWith('mountPath') ? '/' : ''}x`
  return value
}

/** Returns an item with other names, ports and paths, which can be beside the given one. */
function sibling(item: Json): Json {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return another(item, '')
  const entries = Object.entries(item).map(([key, value]): [string, Json] => {
    if (['name', 'mountPath', 'port', 'containerPort', 'topologyKey'].includes(key)) return [key, another(value, key)]
    return [key, value]
  })
  return Object.fromEntries(entries)
}

function* walk(value: Json, path: string): Generator<Edit> {
  if (path) yield { what: `remove ${path}`, operations: [{ op: 'remove', path }] }
  if (Array.isArray(value)) {
    const [first] = value
    if (first !== undefined) {
      yield { what: `add to ${path}`, operations: [{ op: 'add', path: `${path}/-`, value: sibling(first) }] }
      yield {
        what: `put another in place of ${path}`,
        operations: [{ op: 'replace', path: `${path}/0`, value: sibling(first) }],
      }
    }
    for (const [at, item] of value.entries()) yield* walk(item, `${path}/${at}`)
  } else if (typeof value === 'object' && value !== null) {
    if (Object.values(value).every((inner) => typeof inner === 'string'))
      yield { what: `add to ${path}`, operations: [{ op: 'add', path: `${path}/added-by-hand`, value: 'x' }] }
    for (const [key, inner] of Object.entries(value)) yield* walk(inner, `${path}/${escapeKey(key)}`)
  } else yield { what: `change ${path}`, operations: [{ op: 'replace', path, value: another(value, path) }] }
}

/** Fields that the API server fills in and that no manager owns. */
const SERVERS = new Set(['/spec/clusterIP', '/spec/clusterIPs', '/spec/ipFamilies', '/spec/ipFamilyPolicy'])
/** Fields that the operator leaves to other managers. */
const LEFT = ['/spec/replicas', '/spec/template/metadata']

const withoutServers = ({ what, operations }: Edit) =>
  !operations.some(({ path }) => [...SERVERS, ...LEFT].some((left) => path.startsWith(left))) &&
  !/terminationMessage|imagePullPolicy|dnsPolicy|schedulerName|restartPolicy|revisionHistoryLimit$/.test(what)

/** Fields that the operator never renders, and that others may add. */
const ADDITIONS: Readonly<Record<string, readonly Edit['operations'][]>> = {
  Service: [
    [{ op: 'add', path: '/spec/externalIPs', value: ['192.0.2.7'] }],
    [{ op: 'add', path: '/spec/ports', value: [{ name: 'mcp', port: 9999, protocol: 'TCP', targetPort: 'mcp' }] }],
    [
      { op: 'replace', path: '/spec/type', value: 'NodePort' },
      { op: 'add', path: '/spec/externalTrafficPolicy', value: 'Local' },
    ],
    [{ op: 'add', path: '/spec/publishNotReadyAddresses', value: true }],
  ],
  ConfigMap: [
    [{ op: 'add', path: '/immutable', value: true }],
    [{ op: 'add', path: '/binaryData', value: { more: 'eA==' } }],
  ],
  NetworkPolicy: [[{ op: 'add', path: '/spec/egress', value: [{}] }]],
  Deployment: [
    [{ op: 'add', path: '/spec/paused', value: true }],
    [{ op: 'add', path: '/spec/minReadySeconds', value: 5 }],
    [{ op: 'add', path: '/spec/template/spec/hostNetwork', value: true }],
    [{ op: 'add', path: '/spec/template/spec/nodeSelector', value: { disk: 'ssd' } }],
    [{ op: 'add', path: '/spec/template/spec/containers/0/command', value: ['sh'] }],
    [{ op: 'replace', path: '/spec/template/spec/containers', value: [{ name: 'other', image: 'other:1' }] }],
  ],
}

/** Returns all edits of a live child, some of which the API server may refuse. */
export function listEdits(live: object): readonly Edit[] {
  const {
    metadata,
    status: _,
    apiVersion: __,
    kind,
    ...body
  } = live as KubernetesObject & { metadata: { labels: Record<string, string>; ownerReferences: unknown[] } }
  const { labels, annotations = {}, ownerReferences } = metadata
  const ours = Object.keys(annotations).filter((key) => key.startsWith('portico.dev/'))
  const all = [
    ...walk(body as Json, ''),
    ...Object.keys(labels).flatMap((key): Edit[] => [
      { what: `remove label ${key}`, operations: [{ op: 'remove', path: `/metadata/labels/${escapeKey(key)}` }] },
      {
        what: `change label ${key}`,
        operations: [{ op: 'replace', path: `/metadata/labels/${escapeKey(key)}`, value: 'x' }],
      },
    ]),
    ...ours.map(
      (key): Edit => ({
        what: `remove annotation ${key}`,
        operations: [{ op: 'remove', path: `/metadata/annotations/${escapeKey(key)}` }],
      }),
    ),
    ...ownerReferences.map(
      (_, at): Edit => ({
        what: 'remove owner reference',
        operations: [{ op: 'remove', path: `/metadata/ownerReferences/${at}` }],
      }),
    ),
    {
      what: 'controller: false',
      operations: [{ op: 'replace', path: '/metadata/ownerReferences/0/controller', value: false }],
    },
    { what: 'no labels', operations: [{ op: 'remove', path: '/metadata/labels' }] },
    {
      what: 'no labels, no owner',
      operations: [
        { op: 'remove', path: '/metadata/labels' },
        { op: 'remove', path: '/metadata/ownerReferences' },
      ],
    },
    ...(ADDITIONS[kind] ?? []).map((operations): Edit => ({ what: `add ${JSON.stringify(operations)}`, operations })),
  ] as Edit[]
  return all.filter(withoutServers)
}
