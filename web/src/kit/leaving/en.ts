export const en = {
  title: 'One moment',
  link: (host: string) => `Continue to ${host}`,
}
