/** Returns a path of this console to go back to after a login; `/` for anything else. */
export function returnPath(given: string | undefined): string {
  const path = given ?? '/'
  const isOwn =
    /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && !/[\\]|%(?:2f|5c|0[ad])/i.test(path) && !path.startsWith('/login')
  return isOwn && path.length <= 2_000 ? path : '/'
}
