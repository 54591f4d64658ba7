/**
 * The first record there is under one of several names, as JSON has it: what a secret has named is looked for by the
 * digests of all secrets, the one in force first (`KeyedHash.all`). `ask` gets or takes it.
 */
export async function firstRecord<T>(
  names: readonly string[],
  ask: (name: string) => Promise<string | undefined>,
): Promise<T | undefined> {
  for (const name of names) {
    const text = await ask(name)
    if (text !== undefined) return JSON.parse(text) as T
  }
  return undefined
}
