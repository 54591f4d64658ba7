import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endParts } from '../gateway/parts.ts'
import { startSurroundings } from '../shipped/features.ts'
import { buildShipped } from '../shipped/image.ts'
import { bareProxies, measureCosts, printRows } from '../shipped/measure.ts'
import { featureTarget } from '../shipped/portico.ts'
import { endProcesses } from '../shipped/process.ts'
import { compareWithReference, type Setting } from './reference.ts'

const EXTENT = { eras: ['legacy', 'modern'], kinds: ['call', 'list', 'session'], seconds: 2, warm: 20_000 } as const
const SIDES = ['before', 'after'] as const
const FEATURES = ['none', 'all'] as const

/**
 * Compares the processor time of the shipped gateways of two checkouts, without and with all features. Returns whether
 * this one costs more than the reference.
 */
export async function compareGateways(
  roots: { readonly before: string; readonly after: string },
  starts: number,
  setting?: Setting,
): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-pair-'))
  const surroundings = await startSurroundings()
  const products = { before: await buildShipped(roots.before), after: await buildShipped(roots.after) }
  try {
    const targets = FEATURES.flatMap((feature) =>
      SIDES.map((side) => {
        const settings = {
          name: `${side} ${feature}`,
          shipped: products[side],
          directory,
          isOptional: side === 'before',
        }
        return featureTarget(settings, feature, surroundings)
      }),
    )
    const rows = await measureCosts([...bareProxies, ...targets], { ...EXTENT, starts }, (found) =>
      printRows(found, (name) =>
        name.startsWith('after') ? [{ name: name.replace('after', 'before'), as: 'before' }] : [],
      ),
    )
    return compareWithReference(rows, 'after', setting)
  } finally {
    endProcesses()
    endParts()
    surroundings.close()
    for (const side of SIDES) await products[side].remove()
    await rm(directory, { recursive: true })
  }
}
