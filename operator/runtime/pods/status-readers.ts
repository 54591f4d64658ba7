import { isDeepStrictEqual } from 'node:util'
import { clashesIn } from '../../model/clashes.ts'
import type { World } from '../../model/index.ts'
import { reportedSources } from '../../model/reported-sources.ts'
import { type Dependency, onSources } from '../watch/dependencies.ts'
import type { StatusReader } from './status-observer.ts'

/** Stores the state of the sources of registries in the world. */
export const sourcesReader = (world: World, onChange: (dependency: Dependency) => void): StatusReader => ({
  forget: (namespace, name) => void world.sources.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    const reports = answers.flatMap(({ sources }) => (sources === undefined ? [] : [sources]))
    if (reports.length === 0) return undefined
    const key = `${namespace}/${name}`
    const sources = reportedSources(reports)
    if (!isDeepStrictEqual(world.sources.get(key), sources)) {
      world.sources.set(key, sources)
      onChange(onSources(namespace, name))
    }
    return sources.some(({ state }) => state === 'Waiting') ? 'incomplete' : 'complete'
  },
})

/** Stores the names of tools that clash in gateways in `clashes` (`namespace/name`); `onChange` gets whose have changed. */
export const clashesReader = (
  clashes: Map<string, readonly string[]>,
  onChange: (namespace: string, name: string) => void,
): StatusReader => ({
  forget: (namespace, name) => void clashes.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    if (answers.length === 0) return undefined
    const key = `${namespace}/${name}`
    const names = [...new Set(answers.flatMap(clashesIn))].sort()
    if (!isDeepStrictEqual(clashes.get(key) ?? [], names)) {
      if (names.length > 0) clashes.set(key, names)
      else clashes.delete(key)
      onChange(namespace, name)
    }
    return 'complete'
  },
})
