import { isDeepStrictEqual } from 'node:util'
import { clashesIn } from '../../model/clashes.ts'
import type { World } from '../../model/index.ts'
import { toldSources } from '../../model/told-sources.ts'
import { type Dependency, onSources } from '../watch/dependencies.ts'
import type { StatusReader } from './status-observer.ts'

/** How the sources of registries stand, into the world. */
export const sourcesReader = (world: World, onChange: (dependency: Dependency) => void): StatusReader => ({
  forget: (namespace, name) => void world.sources.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    const told = answers.flatMap(({ sources }) => (sources === undefined ? [] : [sources]))
    if (told.length === 0) return undefined
    const place = `${namespace}/${name}`
    const sources = toldSources(told)
    if (!isDeepStrictEqual(world.sources.get(place), sources)) {
      world.sources.set(place, sources)
      onChange(onSources(namespace, name))
    }
    return sources.some(({ state }) => state === 'Waiting') ? 'incomplete' : 'complete'
  },
})

/** Names of tools that clash in gateways, into `clashes` (`namespace/name`); `onChange` is told whose are others. */
export const clashesReader = (
  clashes: Map<string, readonly string[]>,
  onChange: (namespace: string, name: string) => void,
): StatusReader => ({
  forget: (namespace, name) => void clashes.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    if (answers.length === 0) return undefined
    const place = `${namespace}/${name}`
    const told = [...new Set(answers.flatMap(clashesIn))].sort()
    if (!isDeepStrictEqual(clashes.get(place) ?? [], told)) {
      if (told.length > 0) clashes.set(place, told)
      else clashes.delete(place)
      onChange(namespace, name)
    }
    return 'complete'
  },
})
