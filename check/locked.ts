/** Checks that every package of the lock file has its SHA-512: npm accepts any download without one. */
import { readFileSync } from 'node:fs'

export interface LockFile {
  readonly packages: Readonly<Record<string, { readonly integrity?: string; readonly link?: boolean }>>
}

const SHA512 = /^sha512-[A-Za-z0-9+/]{86}==$/

/** Returns the packages that would be installed unchecked. The root (the empty path) and links are no downloads. */
export const unchecked = ({ packages }: LockFile): readonly string[] =>
  Object.entries(packages).flatMap(([path, { integrity = '', link = false }]) =>
    path === '' || link || SHA512.test(integrity) ? [] : [path],
  )

if (import.meta.main) {
  const found = unchecked(JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')))
  for (const path of found)
    console.log(`package-lock.json: ${path} has no SHA-512 (npm view NAME@VERSION dist.integrity)`)
  process.exitCode = found.length > 0 ? 1 : 0
}
