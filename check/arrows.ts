/**
 * Checks which rooms import which (docs/architecture.md). Fails with a line for each wrong import, unused allowance and
 * circle of files.
 */
import { type Imports, inside, readImports } from './imports.ts'

/** A room: the files below `path`, and the other rooms that it may import. The longest path wins. */
export interface Room {
  readonly path: string
  readonly mayImport: readonly string[]
}

export const rooms: readonly Room[] = [
  { path: 'cli', mayImport: ['crds', 'operator', 'dataplane', 'console'] },
  {
    path: 'console',
    mayImport: [
      'crds',
      'operator/model',
      'operator/reconcile',
      'operator/cluster',
      'operator/render/object',
      'operator/runtime/pods',
      'dataplane/config',
      'dataplane/server',
      'dataplane/net',
      'dataplane/pages',
    ],
  },
  { path: 'crds/settings', mayImport: [] },
  { path: 'crds', mayImport: ['crds/settings'] },
  { path: 'operator/model', mayImport: ['crds', 'dataplane/config'] },
  { path: 'operator/render', mayImport: ['crds', 'operator/model'] },
  { path: 'operator/reconcile', mayImport: ['crds', 'operator/model', 'operator/render', 'dataplane/config'] },
  { path: 'operator/cluster', mayImport: ['crds', 'operator/model', 'operator/reconcile', 'dataplane/config/read'] },
  {
    path: 'operator/runtime',
    mayImport: [
      'crds',
      'operator/model',
      'operator/reconcile',
      'operator/render',
      'operator/cluster',
      'dataplane/config',
      'dataplane/net',
      'dataplane/retry',
      'dataplane/telemetry/metrics',
    ],
  },
  { path: 'operator/deploy', mayImport: ['crds', 'operator/render', 'operator/cluster'] },
  { path: 'operator/standalone', mayImport: ['operator', 'dataplane/config'] },
  { path: 'dataplane/policy', mayImport: ['crds/settings'] },
  { path: 'dataplane/config', mayImport: ['crds/settings', 'dataplane/policy'] },
  { path: 'dataplane/retry', mayImport: [] },
  { path: 'dataplane/telemetry', mayImport: ['dataplane/config', 'dataplane/net'] },
  { path: 'dataplane/server', mayImport: ['dataplane/config'] },
  {
    path: 'dataplane/audit',
    mayImport: ['crds/settings', 'dataplane/config', 'dataplane/server', 'dataplane/identity'],
  },
  { path: 'dataplane/net', mayImport: ['dataplane/config'] },
  {
    path: 'dataplane/storage',
    mayImport: ['crds/settings', 'dataplane/config', 'dataplane/retry', 'dataplane/server', 'dataplane/telemetry'],
  },
  { path: 'dataplane/upstream-tokens', mayImport: ['crds/settings', 'dataplane/storage'] },
  {
    path: 'dataplane/identity',
    mayImport: [
      'crds/settings',
      'dataplane/config',
      'dataplane/retry',
      'dataplane/server',
      'dataplane/net',
      'dataplane/telemetry',
    ],
  },
  {
    path: 'dataplane/credentials',
    mayImport: [
      'crds/settings',
      'dataplane/config',
      'dataplane/net',
      'dataplane/server',
      'dataplane/identity',
      'dataplane/upstream-tokens',
    ],
  },
  { path: 'dataplane/pages', mayImport: [] },
  {
    path: 'dataplane/authserver',
    mayImport: [
      'crds/settings',
      'dataplane/config',
      'dataplane/audit',
      'dataplane/server',
      'dataplane/net',
      'dataplane/storage',
      'dataplane/telemetry',
      'dataplane/identity',
      'dataplane/upstream-tokens',
      'dataplane/pages',
    ],
  },
  ...['dataplane/gateway', 'dataplane/registry'].map((path) => ({
    path,
    mayImport: [
      'crds/settings',
      'dataplane/config',
      'dataplane/audit',
      ...(path === 'dataplane/gateway' ? ['dataplane/policy'] : []),
      'dataplane/retry',
      'dataplane/telemetry',
      'dataplane/server',
      'dataplane/net',
      'dataplane/storage',
      'dataplane/identity',
      'dataplane/pages',
      ...(path === 'dataplane/gateway'
        ? ['dataplane/credentials', 'dataplane/upstream-tokens', 'dataplane/authserver']
        : []),
    ],
  })),
]

/** The rooms inside a room, from the bottom up: each may import those before it. */
export const floors: Readonly<Record<string, readonly string[]>> = {
  'operator/reconcile': ['outcome', 'references', 'configs', 'rendering', 'workloads'],
  'operator/render': ['object', 'network', 'pod'],
  'operator/runtime': ['queue', 'checks', 'watch', 'children', 'pods', 'report', 'removal', 'admission', 'loop'],
  'operator/standalone': ['process', 'status', 'ports', 'pod'],
  console: ['config', 'places', 'session', 'mcp', 'facts', 'pages', 'endpoint'],
  'dataplane/authserver': ['keys', 'store', 'clients', 'provider', 'pages', 'login', 'account', 'audit', 'endpoint'],
  'dataplane/gateway': [
    'limits',
    'rate-limits',
    'usage',
    'mcp',
    'gate',
    'pins',
    'backends',
    'aggregation',
    'access',
    'search',
    'sessions',
    'request',
    'call',
    'workflows',
    'core',
    'page',
    'endpoint',
  ],
  'dataplane/gateway/backends': ['lists', 'connection', 'channel', 'session', 'health', 'backend', 'refresh'],
  'dataplane/gateway/sessions': ['store', 'relay', 'streams'],
  'dataplane/gateway/call': ['tasks', 'input', 'suspended'],
  'dataplane/gateway/endpoint': ['incoming', 'catalog', 'tools', 'streams'],
  'dataplane/registry': ['authz', 'catalog', 'sources', 'store', 'sync', 'settings', 'api', 'page'],
  'dataplane/registry/sources': ['format', 'http', 'git', 'kubernetes'],
  'dataplane/registry/store': ['database', 'read', 'apply', 'publish'],
  'dataplane/registry/api': ['schemas', 'request', 'catalog', 'admin'],
}

interface Visit {
  readonly file: string
  readonly index: number
  low: number
  readonly rest: Iterator<string>
}

export function findRoom(file: string): Room | undefined {
  return rooms.filter((room) => inside(file, room.path)).sort((a, b) => b.path.length - a.path.length)[0]
}

/** Returns the allowance by which one file imports another; `own` inside a room, undefined if there is none. */
function findAllowance(room: Room, target: string): string | undefined {
  if (target === 'package.json' || findRoom(target)?.path === room.path) return 'own'
  return room.mayImport.find((path) => inside(target, path))
}

/** Returns the imports of one file that point in the wrong direction, a line each. */
export function wrongArrows(file: string, targets: readonly string[]): readonly string[] {
  const room = findRoom(file)
  if (!room) return [`${file}: lies in no room`]
  return targets
    .filter((target) => findAllowance(room, target) === undefined || pointsUp(file, target))
    .map((target) => `${file}: may not import ${target}`)
}

/** Tells whether an import leads from one inner room to a higher one. */
function pointsUp(file: string, target: string): boolean {
  return Object.entries(floors).some(
    ([room, names]) =>
      inside(file, room) && inside(target, room) && findFloor(file, room, names) < findFloor(target, room, names),
  )
}

function findFloor(file: string, room: string, names: readonly string[]): number {
  const [name, ...rest] = file.slice(room.length + 1).split('/') as [string, ...string[]]
  return rest.length === 0 ? names.length : names.indexOf(name)
}

/** Returns allowed imports that no file uses, and inner rooms that have no floor or no file, a line each. */
export function unusedAllowances(imports: Imports): readonly string[] {
  const used = new Set<string>()
  for (const [file, targets] of imports) {
    const room = findRoom(file)
    if (room) for (const target of targets) used.add(`${room.path} → ${findAllowance(room, target)}`)
  }
  return rooms.flatMap(({ path, mayImport }) =>
    mayImport.filter((to) => !used.has(`${path} → ${to}`)).map((to) => `${path}: may import ${to}, and does not`),
  )
}

/** Returns folders of a room that have no floor, and floors without a folder, a line each. */
export function wrongFloors(files: Iterable<string>): readonly string[] {
  const folders = new Set([...files].map((file) => file.slice(0, file.lastIndexOf('/'))))
  return Object.entries(floors).flatMap(([room, names]) => {
    const there = new Set(
      [...folders].filter((folder) => inside(folder, room)).map((f) => f.slice(room.length + 1).split('/')[0]),
    )
    return [
      ...[...there].filter((name) => !names.includes(name as string)).map((name) => `${room}/${name}: has no floor`),
      ...names.filter((name) => !there.has(name)).map((name) => `${room}/${name}: has a floor and no files`),
    ]
  })
}

/** Returns files that import each other in a circle, a line for each circle. */
export const wrongCircles = (imports: Imports): readonly string[] =>
  circles(imports).map((circle) => `a circle of ${circle.length}: ${circle.join(' ')}`)

if (import.meta.main) {
  const imports = readImports(new URL('..', import.meta.url).pathname)
  const wrong = [
    ...[...imports].flatMap(([file, targets]) => wrongArrows(file, targets)),
    ...unusedAllowances(imports),
    ...wrongFloors(imports.keys()),
    ...wrongCircles(imports),
  ]
  for (const line of wrong) console.error(line)
  process.exit(wrong.length === 0 ? 0 : 1)
}

/**
 * Returns the circles of files that import each other, each sorted; type imports count. Linear in files and imports.
 */
export function circles(imports: Imports): readonly (readonly string[])[] {
  const found: string[][] = []
  const indexes = new Map<string, number>()
  const stack: string[] = []
  const onStack = new Set<string>()
  const way: Visit[] = []
  const enter = (file: string): void => {
    way.push({ file, index: indexes.size, low: indexes.size, rest: (imports.get(file) ?? []).values() })
    indexes.set(file, indexes.size)
    stack.push(file)
    onStack.add(file)
  }
  const leave = ({ file, index, low }: Visit): void => {
    way.pop()
    const before = way.at(-1)
    if (before !== undefined) before.low = Math.min(before.low, low)
    if (low !== index) return
    const circle = stack.splice(stack.lastIndexOf(file))
    for (const member of circle) onStack.delete(member)
    if (circle.length > 1 || imports.get(file)?.includes(file)) found.push(circle.sort())
  }
  for (const start of imports.keys()) {
    if (!indexes.has(start)) enter(start)
    for (let visit = way.at(-1); visit !== undefined; visit = way.at(-1)) {
      const next = visit.rest.next()
      if (next.done) leave(visit)
      else if (!indexes.has(next.value)) enter(next.value)
      else if (onStack.has(next.value)) visit.low = Math.min(visit.low, indexes.get(next.value) as number)
    }
  }
  return found
}
