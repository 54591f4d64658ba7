import { findKind } from '../../crds/index.ts'
import type { ObjectIndex } from '../../operator/model/index.ts'
import { formatKey, type ObjectId } from '../places/object-id.ts'
import { listSubjects, type ReportsByObject, type Subject } from './subjects.ts'
import type { State } from './verdict.ts'

export interface Box extends ObjectId {
  readonly key: string
  /** `missing`: the object is referenced but does not exist. `folded`: a whole namespace. */
  readonly state: State | 'missing' | 'folded' | 'outside'
  readonly href: string | null
  readonly x: number
  readonly y: number
}

/** A line from one box to another, through the points between the columns. */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

export type MapFacts = ReturnType<typeof mapFacts>

export const BOX = { width: 180, height: 46 } as const
/** Five columns fit into a window of 1,440 pixels. */
const GAP = { x: 44, y: 14 } as const
const MARGIN = 16
const MOST_BOXES = 500
const SWEEPS = 6

interface Node {
  readonly key: string
  readonly rank: number
  readonly box: Omit<Box, 'x' | 'y'> | undefined
  readonly left: Node[]
  readonly right: Node[]
  place: number
  y: number
  /** The y that its neighbours ask for. */
  wish: number
}

/** Returns the column of a kind: gateways, groups, servers, settings, then objects outside. */
function findRank(kind: string): number {
  if (kind === 'VirtualMCPServer' || kind === 'MCPRegistry') return 0
  if (kind === 'MCPGroup') return 1
  const role = findKind(kind)?.role
  if (role === 'workload' || role === 'entry') return 2
  return role === undefined ? 4 : 3
}

interface MapQuery {
  readonly ns: string
  /** True to show referenced Secrets and ConfigMaps. The console does not check whether they exist. */
  readonly outside: boolean
  /** The object at the center of the map; undefined to show all objects. */
  readonly center?: ObjectId
}

type Pair = readonly [from: ObjectId, to: ObjectId]

/** Returns the edges: from a gateway to its group, from the group to its members, from any object to its settings. */
function pairsIn(objects: ObjectIndex, shown: readonly Subject[], outside: boolean): readonly Pair[] {
  return shown.flatMap((from) =>
    objects.references(from.kind, from.namespace, from.name).flatMap((reference): readonly Pair[] => {
      const to = { namespace: from.namespace, kind: reference.kind, name: reference.name }
      if (findKind(to.kind) === undefined && !outside) return []
      const isMember = to.kind === 'MCPGroup' && from.kind !== 'VirtualMCPServer'
      return [isMember ? [to, from] : [from, to]]
    }),
  )
}

/** Returns the keys that are reachable along the edges, in one direction. */
function collectReachable(start: string, pairs: readonly (readonly [string, string])[]): ReadonlySet<string> {
  const next = Map.groupBy(pairs, ([from]) => from)
  const found = new Set([start])
  for (const key of found) for (const [, to] of next.get(key) ?? []) found.add(to)
  return found
}

function around(center: ObjectId, pairs: readonly Pair[]): ReadonlySet<string> {
  const forward = pairs.map(([from, to]) => [formatKey(from), formatKey(to)] as const)
  const backward = forward.map(([from, to]) => [to, from] as const)
  return new Set([...collectReachable(formatKey(center), forward), ...collectReachable(formatKey(center), backward)])
}

/** Chooses the namespaces whose objects are shown, to limit the number of boxes. The others are folded. */
function shownNamespaces(all: readonly Subject[]): ReadonlySet<string> {
  const sizes = Map.groupBy(all, ({ namespace }) => namespace)
  const shown = new Set<string>()
  let count = sizes.size
  for (const [namespace, { length }] of sizes) {
    if (count + length > MOST_BOXES) continue
    shown.add(namespace)
    count += length
  }
  return shown
}

/** Builds the map: boxes in columns by kind. A few sweeps reduce the crossings. */
export function mapFacts(objects: ObjectIndex, reports: ReportsByObject, query: MapQuery) {
  const everything = listSubjects(objects, reports)
  const namespaces = [...new Set(everything.map(({ namespace }) => namespace))]
  const wanted = everything.filter(({ namespace }) => query.ns === '' || namespace === query.ns)
  const near = query.center && around(query.center, pairsIn(objects, wanted, query.outside))
  const all = near === undefined ? wanted : wanted.filter((one) => near.has(formatKey(one)))
  const open = all.length > MOST_BOXES && query.ns === '' ? shownNamespaces(all) : undefined
  const shown = open === undefined ? all : all.filter(({ namespace }) => open.has(namespace))
  const subjects = shown.slice(0, MOST_BOXES)
  const nodes = new Map<string, Node>()
  for (const subject of subjects) addNode(nodes, buildBox(subject), findRank(subject.kind))
  const folded = all.filter(({ namespace }) => open?.has(namespace) === false)
  for (const [namespace, { length }] of Map.groupBy(folded, (one) => one.namespace))
    addNode(nodes, foldedBox(namespace, length), 0)
  // References stay in a namespace, so none leads out of a folded one. Objects beyond the bound have no box.
  const isDrawn = (id: ObjectId) => nodes.has(formatKey(id)) || !objects.get(id.kind, id.namespace, id.name)
  const pairs = pairsIn(objects, subjects, query.outside)
  const drawn = shown.length > subjects.length ? pairs.filter((pair) => pair.every(isDrawn)) : pairs
  const lines = drawn.flatMap((pair) => buildLine(nodes, pair, near))
  const columns = arrange(nodes)
  const placed = [...nodes.values()].flatMap(({ box, rank, y }) =>
    box ? [{ ...box, x: computeX(rank), y: MARGIN + y }] : [],
  )
  return {
    boxes: placed,
    edges: lines.map(({ from, to, through }) => ({
      from: from.key,
      to: to.key,
      points: computePoints([from, ...through, to]),
    })),
    width: computeX(columns) + BOX.width + MARGIN,
    height: Math.max(0, ...[...nodes.values()].map(({ y, box }) => y + (box ? BOX.height : 0))) + 2 * MARGIN,
    /** The number of objects that are not drawn: in folded namespaces, or beyond the bound in a chosen one. */
    folded: all.length - subjects.length,
    namespaces,
    ns: query.ns,
    outside: query.outside,
  }
}

function buildBox(subject: Subject): Omit<Box, 'x' | 'y'> {
  const { kind, namespace, name, state, href } = subject
  return { key: formatKey(subject), kind, namespace, name, state, href }
}

const foldedBox = (namespace: string, count: number): Omit<Box, 'x' | 'y'> => ({
  key: `namespace/${namespace}`,
  kind: `namespace with ${count} objects`,
  namespace,
  name: namespace,
  state: 'folded',
  href: `/map?ns=${encodeURIComponent(namespace)}`,
})

function addNode(nodes: Map<string, Node>, box: Omit<Box, 'x' | 'y'>, rank: number): Node {
  const node: Node = { key: box.key, rank, box, left: [], right: [], place: nodes.size, y: 0, wish: 0 }
  nodes.set(box.key, node)
  return node
}

interface Line {
  readonly from: Node
  readonly to: Node
  readonly through: readonly Node[]
}

/**
 * Connects two boxes. The line passes through a point in each column between them, so that it does not run behind a
 * box.
 */
function buildLine(nodes: Map<string, Node>, [from, to]: Pair, near: ReadonlySet<string> | undefined): readonly Line[] {
  if (near !== undefined && !(near.has(formatKey(from)) && near.has(formatKey(to)))) return []
  const [source, target] = [from, to].map((id) => nodes.get(formatKey(id)) ?? addMissing(nodes, id)) as [Node, Node]
  const through: Node[] = []
  let before = source
  for (let rank = source.rank + 1; rank < target.rank; rank++) {
    const key = `${source.key} → ${target.key} ${rank}`
    const point: Node = { key, rank, box: undefined, left: [before], right: [], place: nodes.size, y: 0, wish: 0 }
    nodes.set(key, point)
    before.right.push(point)
    through.push(point)
    before = point
  }
  before.right.push(target)
  target.left.push(before)
  return [{ from: source, to: target, through }]
}

function addMissing(nodes: Map<string, Node>, id: ObjectId): Node {
  const isOurs = findKind(id.kind) !== undefined
  const box = { key: formatKey(id), ...id, state: isOurs ? ('missing' as const) : ('outside' as const), href: null }
  return addNode(nodes, box, findRank(id.kind))
}

const computeX = (rank: number): number => MARGIN + rank * (BOX.width + GAP.x)

/**
 * Orders the columns by sweeps: each box moves to the mean position of its neighbours. Then the boxes of shorter columns
 * move beside their neighbours. Returns the last column's number.
 */
function arrange(nodes: ReadonlyMap<string, Node>): number {
  const columns = Map.groupBy(nodes.values(), ({ rank }) => rank)
  const ranks = [...columns.keys()].sort((a, b) => a - b)
  const settle = (column: readonly Node[]) => {
    let y = 0
    let place = 0
    for (const node of column) {
      node.place = place++
      node.y = y
      y += computeHeight(node)
    }
  }
  for (const column of columns.values()) settle(column)
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0
    for (const rank of isDown ? ranks : [...ranks].reverse()) {
      const column = columns.get(rank) as Node[]
      for (const node of column) node.wish = computeMean(isDown ? node.left : node.right, node.y)
      column.sort(byWish)
      settle(column)
    }
  }
  align(ranks.map((rank) => columns.get(rank) as Node[]))
  return ranks.at(-1) ?? 0
}

const byWish = (a: Node, b: Node): number => a.wish - b.wish || a.place - b.place
const computeCenter = ({ y, box }: Node): number => y + (box === undefined ? 0 : BOX.height / 2)
const computeHeight = ({ box }: Node): number => (box === undefined ? 0 : BOX.height) + GAP.y

/** Spreads the columns along the tallest one, which stays as it is. */
function align(columns: readonly Node[][]): void {
  const bottoms = columns.map((column) => column.at(-1)?.y ?? 0)
  const tallest = bottoms.indexOf(Math.max(...bottoms))
  for (const column of columns.slice(0, Math.max(0, tallest)).reverse()) spread(column, ({ right }) => right)
  for (const column of columns.slice(tallest + 1)) spread(column, ({ left }) => left)
}

/** Places each box of a column at the mean position of its neighbours on one side, or below the box above it. */
function spread(column: Node[], neighbours: (node: Node) => readonly Node[]): void {
  for (const node of column) {
    const near = neighbours(node)
    const sum = near.reduce((total, one) => total + computeCenter(one), 0)
    node.wish = near.length === 0 ? node.y : sum / near.length - computeCenter(node) + node.y
  }
  column.sort(byWish)
  let free = 0
  for (const node of column) {
    node.y = Math.max(free, Math.round(node.wish))
    free = node.y + computeHeight(node)
  }
}

const computeMean = (nodes: readonly Node[], otherwise: number): number =>
  nodes.length === 0 ? otherwise : nodes.reduce((sum, { y }) => sum + y, 0) / nodes.length

function computePoints(way: readonly Node[]): readonly (readonly [number, number])[] {
  return way.flatMap((node, index): readonly (readonly [number, number])[] => {
    const y = MARGIN + computeCenter(node)
    const [left, right] = [computeX(node.rank), computeX(node.rank) + BOX.width]
    if (index === 0) return [[right, y]]
    if (index === way.length - 1) return [[node.rank <= (way[0] as Node).rank ? right : left, y]]
    return [
      [left, y],
      [right, y],
    ]
  })
}
