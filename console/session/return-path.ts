/** Returns the path of this console to return to after a login; `/` for any other text. */
export function returnPath(given: string | undefined): string {
  const path = given ?? '/'
  const isOwn =
    /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && !/[\\]|%(?:2f|5c|0[ad])/i.test(path) && !path.startsWith('/login')
  return isOwn && path.length <= 2_000 ? path : '/'
}
