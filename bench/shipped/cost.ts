/**
 * Measures the processor time of shipped gateways for a call, a list and a session, without and with each feature, of
 * one or several checkouts, beside bare proxies. All processes of a round run together and are measured in turn. Usage:
 * cost.ts [--roots A=DIR,B=DIR] [--features none,jwt,…] [--eras legacy,modern] [--kinds call,list,session] [--starts 9]
 * [--seconds 2: measured of each process, era and kind] [--json FILE] [--warm 100000: requests of each before: by then
 * V8 has compiled the code of all features]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { endParts } from '../gateway/parts.ts'
import type { Era } from '../gateway/requests.ts'
import { prepareResults, THIS_CHECKOUT } from './bench.ts'
import { FEATURES, startSurroundings } from './features.ts'
import { buildShipped, type Shipped } from './image.ts'
import { bareProxies, measureCosts, printRows, type Target } from './measure.ts'
import { featureTarget } from './portico.ts'
import { endProcesses } from './process.ts'
import { KINDS } from './work.ts'

const { values } = parseArgs({
  options: {
    roots: { type: 'string', default: `this=${THIS_CHECKOUT}` },
    features: { type: 'string', default: FEATURES.join(',') },
    eras: { type: 'string', default: 'legacy,modern' },
    kinds: { type: 'string', default: KINDS.join(',') },
    starts: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '2' },
    warm: { type: 'string', default: '100000' },
    json: { type: 'string' },
  },
})

function parseChoice<T extends string>(text: string, all: readonly T[]): T[] {
  const names = text.split(',') as T[]
  const unknown = names.filter((name) => !all.includes(name))
  if (unknown.length > 0) throw new Error(`no such ${unknown.join(', ')}; there are ${all.join(', ')}`)
  return names
}

prepareResults(values.json)
const roots = values.roots.split(',').map((text) => text.split('=') as [name: string, root: string])
const features = parseChoice(values.features, FEATURES)
const extent = {
  eras: parseChoice<Era>(values.eras, ['legacy', 'modern']),
  kinds: parseChoice(values.kinds, KINDS),
  starts: Number(values.starts),
  seconds: Number(values.seconds),
  warm: Number(values.warm),
}

/** Rows of a checkout are compared with its row without features, and with the same row of other checkouts. */
function others(name: string) {
  const [root, feature] = name.split(' ')
  if (!roots.some(([known]) => known === root)) return []
  return [
    ...(feature === 'none' ? [] : [{ name: `${root} none`, as: 'nothing on' }]),
    ...roots.filter(([other]) => other !== root).map(([other]) => ({ name: `${other} ${feature}`, as: other })),
  ]
}

const directory = mkdtempSync(join(tmpdir(), 'portico-bench-'))
const surroundings = await startSurroundings()
const products: Shipped[] = []
try {
  const targets: Target[] = [...bareProxies]
  const shipped = new Map<string, Shipped>()
  for (const [name, root] of roots) {
    const product = await buildShipped(resolve(root))
    products.push(product)
    shipped.set(name, product)
  }
  for (const feature of features)
    for (const [index, [name]] of roots.entries()) {
      const isOptional = index > 0 && feature !== 'none'
      const product = shipped.get(name) as Shipped
      const settings = { name: `${name} ${feature}`, shipped: product, directory, isOptional }
      targets.push(featureTarget(settings, feature, surroundings))
    }
  const rows = await measureCosts(targets, extent, (found) => printRows(found, others))
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows)}\n`)
} finally {
  endProcesses()
  endParts()
  surroundings.close()
  for (const product of products) await product.remove()
  rmSync(directory, { recursive: true, force: true })
}
