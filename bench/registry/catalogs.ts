import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateServers, registryFile, WORDS } from './generate.ts'

/** Each source has its own claims: a caller with those of one sees a twentieth. */
export const SOURCES = 20
/** Only names of the last source have this, at the end of all lists. */
const LATE = 'zulufleet'

export interface Catalogs {
  readonly directory: string
  readonly megabytes: number
  /** Names per source; every fourth source repeats those of the one before. */
  readonly names: number
  /** Writes a configuration; `rest` has `auth` and `database`. Returns its file. */
  configure(rest: object): Promise<string>
  remove(): Promise<void>
}

/** Terms of each kind that have not been searched for with this index. */
export const terms: Readonly<Record<string, (index: number) => string>> = {
  common: (index) => spellTerm(chooseWord(index), Math.floor(index / WORDS.length)),
  'two words': (index) => `${chooseWord(index)} ${chooseWord(index + Math.floor(index / WORDS.length))}`,
  rare: (index) => `number ${index * 7}`,
  'late cluster': (index) => spellTerm(LATE, index),
  none: (index) => `nothing like ${index}`,
}

const chooseWord = (index: number) => WORDS[index % WORDS.length] as string

/**
 * Returns a term that is equal for search and different for a cache: the bits of the number decide which letters are
 * capitals.
 */
function spellTerm(term: string, number: number): string {
  return Array.from(term, (letter, place) => ((number >> place) & 1 ? letter.toUpperCase() : letter)).join('')
}

/** Writes registry files that hold so many versions together. */
export async function writeCatalogs(rows: number, versions: number): Promise<Catalogs> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
  const sources = Array.from({ length: SOURCES }, (_, index) => `source-${index}`)
  const names = Math.round(rows / versions / SOURCES)
  let characters = 0
  for (const [index, name] of sources.entries()) {
    const overlaps = index % 4 === 2
    const prefix = `p${overlaps ? index - 1 : index}`
    const domain = index === SOURCES - 1 ? `com.${LATE}` : 'com.example'
    const text = registryFile(
      generateServers({ names, versions, bytes: [1_000, 40_000], seed: index + 1, prefix, domain }),
    )
    characters += text.length
    await writeFile(join(directory, `${name}.json`), text)
  }
  return {
    directory,
    megabytes: characters / 1e6,
    names: names * SOURCES,
    async configure(rest) {
      const config = {
        sources: [
          ...sources.map((name, index) => ({
            name,
            file: { path: `${name}.json` },
            claims: { team: formatTeam(index) },
            syncPolicy: { interval: '1h' },
          })),
          { name: 'own', managed: {} },
        ],
        registries: [{ name: 'bench', sources: [...sources, 'own'] }],
        ...rest,
      }
      const file = join(directory, 'registry.yaml')
      await writeFile(file, JSON.stringify(config))
      return file
    },
    remove: () => rm(directory, { recursive: true }),
  }
}

export const formatTeam = (source: number) => `t${source}`
