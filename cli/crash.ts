import { maskSecrets } from '../dataplane/config/credential-text.ts'

/** The causes of an error that are told. */
const MOST_CAUSES = 5

/**
 * Returns what is told of an error that nobody handled: stacks, of its causes too. Other properties of errors hold
 * requests with their headers, or commands with their passwords, so they are left out.
 */
export function describeCrash(error: unknown): string {
  const told: string[] = []
  for (
    let one = error;
    one !== undefined && told.length < MOST_CAUSES;
    one = one instanceof Error ? one.cause : undefined
  )
    told.push(one instanceof Error ? (one.stack ?? `${one.name}: ${one.message}`) : String(one))
  return maskSecrets(`portico: nobody handled this error: ${told.join('\ncaused by ')}`)
}
