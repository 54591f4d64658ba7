import { readFile } from 'node:fs/promises'
import { storedUpstreamTokens, type UpstreamTokens } from '../../dataplane/credentials/index.ts'
import { createMemoryTokenStore } from '../../dataplane/upstream-tokens/index.ts'

/** Reads the tokens that a provider gave users at login: `{issuer, provider, accessToken, subjects}`. */
export async function readLogins(file: string): Promise<UpstreamTokens> {
  const { issuer, provider, accessToken, subjects } = JSON.parse(await readFile(file, 'utf8'))
  const store = createMemoryTokenStore()
  for (const subject of subjects)
    await store.put({ login: subject, provider }, { owner: subject, subject, accessToken }, { ttlMs: 24 * 3_600_000 })
  return storedUpstreamTokens(store, { issuer })
}
