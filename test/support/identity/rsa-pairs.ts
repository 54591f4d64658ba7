import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exportJWK, type GenerateKeyPairResult, generateKeyPair, importJWK, type JWK } from 'jose'
import { cacheFolder } from '../../setup/cache.ts'

/** The number of pairs, which are used in turn: providers of the same test have different ones. */
const PAIRS = 8

let reading: Promise<readonly JWK[]> | undefined
const pairs: Promise<GenerateKeyPairResult>[] = []
let taken = 0

/**
 * Returns the next of a few extractable RSA pairs for RS256. Making one takes a fifth of a second, so that all test
 * runs of a machine share those in set-up's folder.
 */
export async function nextRsaPair(): Promise<GenerateKeyPairResult> {
  reading ??= readPairs()
  const keys = await reading
  const index = taken++ % keys.length
  pairs[index] ??= importPair(keys[index] as JWK)
  return pairs[index]
}

async function importPair({ kty, n, e, ...rest }: JWK): Promise<GenerateKeyPairResult> {
  const importKey = (jwk: JWK) =>
    importJWK(jwk, 'RS256', { extractable: true }) as Promise<GenerateKeyPairResult['privateKey']>
  const [publicKey, privateKey] = await Promise.all([importKey({ kty, n, e }), importKey({ kty, n, e, ...rest })])
  return { publicKey, privateKey }
}

async function readPairs(): Promise<readonly JWK[]> {
  const file = join(cacheFolder(), 'rsa-pairs.json')
  try {
    return JSON.parse(await readFile(file, 'utf8')) as JWK[]
  } catch {
    const created = await Promise.all(
      Array.from({ length: PAIRS }, async () =>
        exportJWK((await generateKeyPair('RS256', { extractable: true })).privateKey),
      ),
    )
    await mkdir(cacheFolder(), { recursive: true })
    const draft = `${file}-${process.pid}`
    await writeFile(draft, JSON.stringify(created), { mode: 0o600 })
    await rename(draft, file)
    return created
  }
}
