import { maskSecrets } from '../dataplane/config/check/url.ts'

/** The most causes of an error that are printed. */
const MOST_CAUSES = 5

/**
 * Formats an error that nobody handled: its stack and those of its causes. Other properties are left out, because they
 * may hold requests with their headers, or commands with their passwords.
 */
export function describeCrash(error: unknown): string {
  const stacks: string[] = []
  for (
    let one = error;
    one !== undefined && stacks.length < MOST_CAUSES;
    one = one instanceof Error ? one.cause : undefined
  )
    stacks.push(one instanceof Error ? (one.stack ?? `${one.name}: ${one.message}`) : String(one))
  return maskSecrets(`portico: nobody handled this error: ${stacks.join('\ncaused by ')}`)
}
