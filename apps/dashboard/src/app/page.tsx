import { Studio } from '@/components/studio';

export default function Page() {
  return <Studio />;
}
