export const en = {
  backTo: 'Back to the shop',
}
