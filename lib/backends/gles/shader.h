/* SPDX-License-Identifier: MIT */
/*
 * The shaders that run a plan of lib/prepare/program.h, in GLSL ES 3.00: the fragment shader is
 * lib/prepare/kernel.h, for one word of the tensor. The texts have no comments, because they are
 * in the library.
 *
 * g[] is the program without its tables, which are a texture of 1024 words a row. r[] is
 * the run:
 *
 *	0, 3, 6		of each component: the byte of its first value, its pitch, and the
 *			logarithm of the words in a row of its image
 *	9		that of the tensor's image
 *	10		the byte in the tensor's image at which its values begin
 *	11, 12		the first and the last value of a word that this pass makes
 *	13		the bits of a sample
 *	14, 18, 22	of each axis of the tensor, from the largest step to the smallest: its
 *			step in bytes, the number of its values, which axis it is (0: x, 1: y,
 *			2: channel), and whether it runs backwards
 *
 * A fragment is a word. It divides the word's place by the steps to find its values, and is
 * discarded if it has none, so nothing else is written. A byte k is written as k / 255, which a
 * target of 8 bits stores as k.
 */
#ifndef DLBUF_GLES_SHADER_H
#define DLBUF_GLES_SHADER_H

enum { RUN_AT = 0, RUN_PITCH = 3, RUN_SHIFT = 6, RUN_TO_SHIFT = 9, RUN_TO = 10, RUN_FIRST = 11,
       RUN_LAST = 12, RUN_MASK = 13, RUN_AXES = 14, RUN_WORDS = 26 };

/* A triangle that covers the viewport. */
static const char gles_vertex_shader[] =
"#version 300 es\n"
"void main(){"
"gl_Position=vec4(gl_VertexID==1?3.:-1.,gl_VertexID==2?3.:-1.,0.,1.);"
"}";

static const char gles_fragment_shader[] =
"#version 300 es\n"
"precision highp float;precision highp int;"
"precision highp sampler2D;precision highp usampler2D;"
"uniform sampler2D s0,s1,s2;"
"uniform usampler2D t;"
"uniform uint g[53],r[26];"
"layout(location=0)out vec4 made;"
"uint T(uint i){return texelFetch(t,ivec2(i&1023u,i>>10),0).x;}"
"float F(uint i){return uintBitsToFloat(T(i));}"
"float G(uint i){return uintBitsToFloat(g[i]);}"

"float sampled(uint c,uint at){"
"uint w=at>>2,n=r[6u+c];"
"ivec2 p=ivec2(w&((1u<<n)-1u),w>>n);"
"vec4 v=c==0u?texelFetch(s0,p,0):c==1u?texelFetch(s1,p,0):texelFetch(s2,p,0);"
"uvec4 b=uvec4(v*255.+.5);"
"w=(b.x|b.y<<8|b.z<<16|b.w<<24)>>((at&3u)<<3)&r[13];"
"return float(w>>g[18u+6u*c]&g[19u+6u*c]);"
"}"

"float component(uint c,uint i,uint j){"
"uint k=14u+6u*c,x=g[k+2u],y=g[k+3u],bytes=g[0]>>3;"
"uint taps_x=T(x),nx=T(x+1u),taps_y=T(y),ny=T(y+1u),step=g[k+1u]*bytes;"
"uint row=r[c]+T(y+2u+j)*r[3u+c]+g[k]*bytes+T(x+2u+i)*step;"
"float sum=0.;"
"for(uint v=0u;v<taps_y;v++){"
"float part=0.;"
"for(uint u=0u;u<taps_x;u++)"
"part+=sampled(c,row+u*step)*F(x+2u+nx+u*nx+i);"
"sum+=part*F(y+2u+ny+v*ny+j);"
"row+=r[3u+c];"
"}"
"return sum;"
"}"

"uint half_of(float f){"
"uint b=floatBitsToUint(f),sign=b>>16&0x8000u;"
"b&=0x7fffffffu;"
"if(b<0x38800000u)b=floatBitsToUint(uintBitsToFloat(b)+.5)-0x3f000000u;"
"else b=b>=0x477ff000u?0x7c00u:(b-0x38000000u+0xfffu+(b>>13&1u))>>13;"
"return sign|b;"
"}"

"uint stored(float f){"
"uint b=floatBitsToUint(f);"
"if(g[3]==4u)return b;"
"if(g[3]==3u)return(b+0x7fffu+(b>>16&1u))>>16;"
"if(g[3]==2u)return half_of(f);"
"float least=float((g[3]==1u?-128:0)-int(g[4]));"
"return uint(int(roundEven(clamp(f,least,least+255.)))+int(g[4]))&255u;"
"}"

"void main(){"
"uint size=g[3]==4u?4u:g[3]>1u?2u:1u,word=0u,last_x=~0u,last_y=0u;"
"uint from=((uint(gl_FragCoord.y)<<r[9])+uint(gl_FragCoord.x))*4u-r[10];"
"bool any=false,inside=false;"
"float v[3];"
"for(int c=0;c<3;c++)v[c]=0.;"
"for(uint k=r[11];k<=r[12];k++){"
"uint d=from+k*size;"
"uvec3 q,n=uvec3(0);"
"for(uint a=0u;a<3u;a++){"
"uint s=r[14u+4u*a],i=d/s,to=r[16u+4u*a],m=r[15u+4u*a];"
"d-=i*s;"
"if(i>=m)d=1u<<30;"
"if(r[17u+4u*a]!=0u)i=m-1u-i;"
"if(to==0u)n.x=i;else if(to==1u)n.y=i;else n.z=i;"
"}"
"if(d!=0u)continue;"
"any=true;"
"if(n.x!=last_x||n.y!=last_y){"
"last_x=n.x;last_y=n.y;"
"uint x=n.x-g[7],y=n.y-g[8];"
"inside=x<g[9]&&y<g[10];"
"if(inside){"
"x=g[12]!=0u?g[9]-1u-x:x;"
"y=g[13]!=0u?g[10]-1u-y:y;"
"if(g[11]!=0u){uint i=x;x=y;y=i;}"
"for(uint c=0u;c<g[1];c++)v[c]=component(c,x,y);"
"}"
"}"
"uint m=32u+4u*n.z;"
"float f=inside?clamp(G(m)*v[0]+G(m+1u)*v[1]+G(m+2u)*v[2]+G(m+3u),G(44u+n.z),G(47u+n.z)):"
"G(50u+n.z);"
"word|=stored(f)<<(k*size*8u);"
"}"
"if(!any)discard;"
"made=vec4(uvec4(word,word>>8,word>>16,word>>24)&255u)/255.;"
"}";

#endif /* DLBUF_GLES_SHADER_H */
